"""A model and an optimizer as the state of an elastic group, in threads of one process."""

import json
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest
import ringroad.torch
import torch
from ringroad.start.state import Progress
from ringroad.torch.elastic_training import ElasticTraining, _Training
from torch import nn


def training(seed, steps, make, outputs=2):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, outputs))
    model.register_buffer("scale", torch.rand(2))
    optimizer = make(model.parameters())
    learn(model, optimizer, steps)
    return model, optimizer


def learn(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        (model(torch.ones(4, 3)) - 1).square().sum().backward()
        optimizer.step()


def bits(model, optimizer):
    state = optimizer.state_dict()
    tensors = [*model.state_dict().values(), *(one for kept in state["state"].values() for one in kept.values())]
    return b"".join(tensor.numpy().tobytes() for tensor in tensors), str(state["param_groups"])


def leveled(trained):
    """The first one holds the state, the others come anew."""
    members = [Progress(_Training(*one)) for one in trained]
    for rank, member in enumerate(members):
        member.begin(holds=rank == 0)
    comms = ringroad.Communicator.in_process(len(members), timeout=60)
    pool = ThreadPoolExecutor(len(members))
    return [pool.submit(member.level, comm, 1) for member, comm in zip(members, comms, strict=True)], comms


MAKERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda parameters: torch.optim.AdamW(parameters, lr=0.1),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_newcomer_gets_model_and_optimizer(make):
    trained = [training(1, 3, make), training(2, 0, make), training(3, 1, make)]
    trained[0][1].param_groups[0]["lr"] = 0.05
    for done in leveled(trained)[0]:
        done.result()
    for _ in range(2):
        assert len({bits(*one) for one in trained}) == 1
        for one in trained:
            learn(*one, 1)


def test_another_model(refused):
    make = MAKERS["adam"]
    works, comms = leveled([training(1, 1, make), training(1, 1, make, outputs=1)])
    with refused(ringroad.ReplicaError):
        works[1].result()
    comms[1].close()
    with pytest.raises(ringroad.PeerError):
        works[0].result()


class Repeated(ElasticTraining):
    """A group in which every step is computed twice, as if a member had been lost in between."""

    def __init__(self, comm, model, optimizer):
        self.model, self.optimizer, self.ours = model, optimizer, comm

    def run(self, compute, apply):
        compute(self.ours)
        result = compute(self.ours)
        apply(result)
        return result


def test_a_step_changes_buffers_once_and_alike():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    comms = ringroad.Communicator.in_process(3, timeout=60)
    copies = [deepcopy(model) for _ in comms]

    def train(comm, own):
        optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
        inputs = torch.eye(2, 3) + comm.rank
        Repeated(comm, own, optimizer).train(lambda: own(inputs).square().sum())
        return bits(own, optimizer)

    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(train, comms, copies))) == 1
    model(torch.eye(2, 3))  # what rank 0 has seen, once
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, copies[2].get_buffer(name)), name


def test_what_is_no_model_is_refused(refused):
    model, optimizer = training(1, 0, MAKERS["sgd"])
    for given, name in (((5, optimizer), "model"), ((model, 5), "optimizer")):
        with refused(TypeError, name, 5):
            ringroad.torch.elastic("tcp://127.0.0.1:1", *given)


FORM = json.loads(_Training(*training(1, 1, MAKERS["adam"])).form())


@pytest.mark.parametrize(
    "form",
    [
        pytest.param("[" * 100_000, id="deep"),
        [],
        [FORM[0], {"0": 5}, FORM[2]],
        [FORM[0], {"0": {"exp_avg": ["tensor", "load", [1]]}}, FORM[2]],
        [FORM[0], {"0": {"exp_avg": ["tensor", "float32", [1 << 62]]}}, FORM[2]],
        [FORM[0], {"zero": {}}, FORM[2]],
        [FORM[0], {}, [{"params": "all"}]],
        [FORM[0], {}, []],
        [{}, {}, []],
    ],
)
def test_a_form_that_makes_no_sense(form, refused):
    text = form if isinstance(form, str) else json.dumps(form)
    with refused(ringroad.ReplicaError):
        _Training(*training(1, 1, MAKERS["adam"])).adopt(text.encode())
