"""The engine as a worker of NVIDIA Dynamo."""
