"""Layers measured by hooks: which layers there are, and in which order; not how long they take."""

import pytest
from marks import torch
from ringroad.lab import training
from ringroad.lab.training import profile_layers


class Shared(torch.nn.Module):
    """A model with weights that two layers share, a frozen layer, an unused layer, and a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(4))
        self.inner = torch.nn.Linear(4, 4)
        self.tied = torch.nn.Linear(4, 4, bias=False)
        self.tied.weight = self.inner.weight
        self.frozen = torch.nn.Linear(4, 4).requires_grad_(False)
        self.unused = torch.nn.Linear(4, 4)

    def forward(self, x):
        return {"loss": self.tied(self.frozen(self.inner(x)) * self.scale).square().mean()}


def chain():
    linear = torch.nn.Linear
    return torch.nn.Sequential(linear(8, 16), torch.nn.ReLU(), linear(16, 4, bias=False), torch.nn.LayerNorm(4))


def test_layers_of_a_chain(tmp_path):
    net = chain()
    before = [parameter.clone() for parameter in net.parameters()]
    model = profile_layers(net, torch.ones(3, 8), repeat=2, name="chain")
    assert [(layer.name, layer.bytes) for layer in model.layers] == [("(rest)", 0), ("0", 576), ("2", 256), ("3", 32)]
    assert (model.name, model.batch) == ("chain", 3)
    assert all(layer.forward >= 0 and layer.backward >= 0 for layer in model.layers)
    assert model.forward > 0 and model.backward > 0
    assert all(parameter.grad is None for parameter in net.parameters())
    assert all(map(torch.equal, before, net.parameters()))
    assert not any(module._forward_hooks for module in net.modules())
    assert not any(parameter._post_accumulate_grad_hooks for parameter in net.parameters())
    model.save(tmp_path / "chain.toml")
    assert training.Model.load(tmp_path / "chain.toml") == model
    assert training.iterate(model, "ring:4", bucket="layer").allreduces[0].layers == ("3",)


def test_shared_frozen_and_unused_layers():
    net = Shared().to(torch.float64)
    model = profile_layers(net, torch.ones(2, 4, dtype=torch.float64), loss=lambda out: out["loss"], repeat=1)
    sizes = {layer.name: layer.bytes for layer in model.layers}
    assert sizes == {"(rest)": 0, "inner": 160, "(model)": 32}
    assert [layer.name for layer in model.layers] == ["(rest)", "inner", "(model)"]


@pytest.mark.parametrize(
    ("text", "net", "options"),
    [
        ("no parameter", lambda: torch.nn.ReLU(), {}),
        ("cannot compute gradients", lambda: chain(), {"loss": lambda out: out}),
        ("cannot compute gradients", lambda: torch.nn.LSTM(8, 4), {}),
        ("1 repetition or more, not 0", lambda: chain(), {"repeat": 0}),
    ],
)
def test_what_cannot_be_measured(text, net, options):
    made = net()
    with pytest.raises(ValueError, match=text):
        profile_layers(made, torch.ones(3, 8), **options)
    assert not any(module._forward_hooks for module in made.modules())
