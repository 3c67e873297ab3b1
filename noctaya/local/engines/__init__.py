"""Engines that stand for model servers on the embedded cluster: programs in the image table, each run as its own process.

`llamacpp` serves a real model from a GGUF file; `scripted` plays one, for tests that need exact behaviour. They must not
import workers, gateway or the cluster: each is the inside of a container.
"""
