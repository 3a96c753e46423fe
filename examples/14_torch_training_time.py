"""Measure a model's layers, and predict the time of training it on several networks.

    python examples/14_torch_training_time.py

Needs torch. This makes predictions only, without communication.
"""

import torch
from ringroad.lab import training

net = torch.nn.Sequential(*(layer for _ in range(6) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())))
model = training.profile_layers(net, torch.randn(64, 512), loss=lambda out: out.square().mean(), name="perceptron")
model.save("perceptron.toml")  # for `ringroad lab training perceptron.toml --topology ...`

# The bucket size of torch's DistributedDataParallel, and a bucket for each layer.
networks = ["ring:64", "torus:8x8", "hypercube:6"]
for bucket in ("25MiB", "layer"):
    comparison = training.compare(model, networks, bucket=bucket)
    for row in comparison.iterations:
        print(f"{bucket:>5} {row.network.name:>11}: {row.seconds * 1e3:.2f} ms, {row.exposed * 1e3:.2f} ms exposed")

# Well-known models come with ringroad.
print(training.compare("resnet50", networks))
