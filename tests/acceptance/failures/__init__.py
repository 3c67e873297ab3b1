"""Parts die, come late or are replaced while requests are held and streaming: no admitted request is lost, no zero is wrong.

| module | what |
| --- | --- |
| `outcomes` | what became of each request, and the two claims; pure |
| `traffic` | the load: makes requests, records every one; bounded in count and time |
| `zeros` | every fall of a model's replicas to none, from the API server |
| `scene` | both together for one namespace of scripted models, as tests use them |
| `faults` | how parts are killed |
| `keda` | KEDA taken away and brought back |
"""
