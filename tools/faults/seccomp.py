"""Makes the kernel refuse system calls to this process, as in containers."""

import ctypes
import platform
import struct

# Numbers on x86-64 and on aarch64.
NUMBERS = {
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "memfd_create": (319, 279),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "kcmp": (312, 272),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "get_mempolicy": (239, 236),
    "move_pages": (279, 239),
    "open_by_handle_at": (304, 265),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "mount": (165, 40),
    "unshare": (272, 97),
    "setns": (308, 268),
}

LISTS = {
    "pidfd_open": ["pidfd_open"],
    "memfd_create": ["memfd_create"],
    "process_vm_readv": ["process_vm_readv"],
    # Calls that Docker's own list refused on older kernels, and that stricter lists still refuse.
    "container": [name for name in NUMBERS if name != "memfd_create"],
}

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2


def refuse(names: list[str], errno: int) -> None:
    """Refuses the calls to this thread and all threads that it starts. Irreversible."""
    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    numbers = [NUMBERS[name][column] for name in names]
    rules = [(LOAD, 0, 0, 0)]  # the number of the call
    # Each line jumps to the last one if the number is equal.
    rules += [(EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    rules += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | errno)]
    program = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    memory = ctypes.create_string_buffer(program, len(program))
    head = ctypes.create_string_buffer(struct.pack("HP", len(rules), ctypes.addressof(memory)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((NO_NEW_PRIVS, 1, 0), (SECCOMP, FILTER, ctypes.addressof(head))):
        if libc.prctl(arguments[0], arguments[1], ctypes.c_void_p(arguments[2]), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl{arguments[:2]}")
