module noctaya.io/tests/cluster/pause

go 1.26
