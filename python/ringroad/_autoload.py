"""Entry point that torch runs at the end of `import torch`: it must be cheap and must never raise.

Torch 2.14 and later find the backend by another entry point, when somebody asks for it; for them there is nothing to do
here. Earlier ones learn the name, so that `init_process_group("ringroad")` says which versions are supported.
"""


def autoload() -> None:
    try:
        import torch

        if not hasattr(torch.distributed.Backend, "_ensure_backend_registered"):
            import ringroad.torch  # noqa: F401
    except Exception:
        return
