"""A GPU that is only pretended, so that a machine without one finds what a GPU would refuse.

Its tensors are CPU tensors with real numbers that say they are on the card. As on a real one they cannot meet tensors
of the CPU or be read as arrays, and on MPS they are never float64. Kernels, speed and memory are the CPU's.
"""

from contextlib import ExitStack, contextmanager, nullcontext
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

MARK = "on_card"  # in the attributes of a tensor
# What a card does with tensors of the CPU too: it copies, and compares where tensors are.
TAKES_BOTH = {"copy_", "_foreach_copy_", "__deepcopy__", "is_same_size", "is_set_to"}
# What the host reads of a tensor wherever it is: a number of it, or its shape.
READS = {"tolist", "item", "__bool__", "__float__", "__int__", "__index__", "__len__", "__repr__", "__format__"}
# What neither kind of card has; and MPS, before PyTorch 2.13.
REFUSED = {"numpy", "__array__"}
REFUSED_BY_MPS = {"nonzero_static"}


def is_on_card(tensor):
    return tensor.__dict__.get(MARK, False)


class Card(TorchFunctionMode):
    """Follows which tensors are on the card through all functions of PyTorch that Python calls."""

    def __init__(self, kind):
        super().__init__()
        self.device = torch.device(kind, 0)

    def placed(self, output, on_card):
        """Mark the tensors of an output as on the card, or not, and return it."""
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor):
                if on_card and self.device.type == "mps" and tensor.dtype == torch.float64:
                    raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
                tensor.__dict__[MARK] = on_card
        return output

    def names_card(self, device):
        return torch.device(device).type == self.device.type

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = function.__name__
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if name in ("__get__", "__set__"):
            return self.attribute(function, name, tensors, args, kwargs)
        if name in READS or name.startswith("_has_"):
            return function(*args, **kwargs)
        if name == "pin_memory":
            return args[0].clone()
        if name in ("to", "cpu"):
            return self.moved(function, name, tensors, args, kwargs)
        refused = REFUSED | (REFUSED_BY_MPS if self.device.type == "mps" else set())
        if name in refused and is_on_card(tensors[0]):
            raise TypeError(f"{name} of a tensor on {self.device}")
        if kwargs.get("device") is not None:  # it makes a tensor where it is told to
            on_card = self.names_card(kwargs["device"])
            return self.placed(function(*args, **kwargs | {"device": "cpu"}), on_card)

        # Single numbers may come from anywhere, and so may the indices of a tensor on the card.
        sized = [is_on_card(tensor) for tensor in tensors if tensor.ndim]
        indexes_card = name in ("__getitem__", "__setitem__") and is_on_card(tensors[0])
        if any(sized) and not all(sized) and name not in TAKES_BOTH and not indexes_card:
            raise RuntimeError(f"Expected all tensors to be on the same device: {name}")
        return self.placed(function(*args, **kwargs), any(sized or map(is_on_card, tensors)))

    def attribute(self, function, name, tensors, args, kwargs):
        """Read or set an attribute of a tensor."""
        attribute = function.__self__.__name__
        if name == "__get__" and attribute == "device":
            return self.device if is_on_card(tensors[0]) else torch.device("cpu")
        output = function(*args, **kwargs)
        if name == "__get__":
            return self.placed(output, is_on_card(tensors[0]))
        if attribute == "data":
            self.placed(tensors[0], is_on_card(tensors[1]))
        return output

    def moved(self, function, name, tensors, args, kwargs):
        """Return a tensor that is moved to or from the card, or only converted: a new one if its place changes."""
        tensor = tensors[0]
        named = [kwargs.get("device"), *(arg for arg in args[1:] if isinstance(arg, str | torch.device))]
        named = [device for device in named if device is not None]
        like_other = name == "to" and is_on_card(tensors[-1])  # it may be given a tensor, in place of a device
        on_card = self.names_card(named[0]) if named else like_other
        args = [torch.device("cpu") if isinstance(arg, str | torch.device) else arg for arg in args]
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        output = function(*args, **kwargs)
        if output is tensor:
            if on_card == is_on_card(tensor):
                return tensor
            output = tensor.clone()
        return self.placed(output, on_card)


@contextmanager
def pretended(kind):
    """Let everything within see one card of this kind, "cuda" or "mps": `training.device=auto` then picks it."""
    from encoderlab.training import batches

    card = Card(kind)
    subclass = torch.Tensor._make_subclass  # of which parameters are made; PyTorch does not tell the mode

    def placed_subclass(cls, data, *more):
        return card.placed(subclass(cls, data, *more), is_on_card(data))

    # Questions and settings that a driver would answer; the generator is the CPU's.
    answers = {
        "is_available": kind == "cuda",
        "device_count": 1,
        "get_device_name": "a card",
        "max_memory_allocated": 1,
    }
    answers |= {"is_bf16_supported": False, "set_device": None, "set_rng_state": None}
    changes = [(torch.cuda, name, lambda *_, answer=answer, **__: answer) for name, answer in answers.items()]
    changes += [
        (torch.cuda, "get_rng_state", torch.get_rng_state),
        (torch.backends.mps, "is_available", lambda: kind == "mps"),
        (torch, "get_device_module", lambda *_: torch.cuda),
        (torch.random, "fork_rng", lambda *_, **__: nullcontext()),
        (batches, "prefetched", lambda items, device: items),  # a mode sees only its own thread
        (torch.Tensor, "_make_subclass", staticmethod(placed_subclass)),
    ]
    with ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(patch.object(owner, name, value))
        stack.enter_context(card)
        yield
