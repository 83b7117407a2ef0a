"""A Python job that uses the GPU through ctypes, from nested functions, and knows how.

Each step of each thread is train() → forward() → one launch of ``scale``, and, every third step, backward() → two
launches of ``add``. With --ranges, forward and backward are ranges too (pillion.record_function). The answer:

    {"kernels": {name: {"count": …, "ns": …}}, "launches": {tid: count}, "functions": {"forward": …, "backward": …}}
"""

import contextlib
import ctypes
import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "targets"))

import handshake

KERNELS = ("_Z5scalePfi", "_Z3addPfS_S_i")
SCALE, ADD = range(2)
BACKWARD_EVERY = 3


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


def open_cudart():
    """The libcudart that LD_LIBRARY_PATH leads to, with the kernels registered; their host functions are made up."""
    for directory in os.environ["LD_LIBRARY_PATH"].split(":"):
        for path in Path(directory).glob("libcudart.so"):
            cudart = ctypes.CDLL(str(path))
            cudart.cudaLaunchKernel.argtypes = [
                ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
            ]  # fmt: skip
            register = cudart["__cudaRegisterFunction"]
            for number, name in enumerate(KERNELS):
                text = ctypes.create_string_buffer(name.encode())
                names.append(text)
                register(None, ctypes.c_void_p(number + 1), text, text, -1, *[None] * 5)
            return cudart
    raise SystemExit("gpu_job: no libcudart.so in LD_LIBRARY_PATH")


names = []
cudart = open_cudart()


class Thread(threading.Thread):
    """steps: how many train() makes."""

    def __init__(self, steps, range_of):
        super().__init__()
        self.steps = steps
        self.range_of = range_of
        self.launches = [0] * len(KERNELS)
        self.calls = {"forward": 0, "backward": 0}

    def run(self):
        self.stream = ctypes.c_void_p()
        check(cudart.cudaStreamCreate(ctypes.byref(self.stream)))
        self.train()
        check(cudart.cudaStreamSynchronize(self.stream))

    def train(self):
        for step in range(self.steps):
            self.forward()
            if step % BACKWARD_EVERY == 0:
                self.backward()

    def forward(self):
        self.calls["forward"] += 1
        with self.range_of("forward"):
            self.launch(SCALE)

    def backward(self):
        self.calls["backward"] += 1
        with self.range_of("backward"):
            self.launch(ADD)
            self.launch(ADD)

    def launch(self, kernel):
        check(cudart.cudaLaunchKernel(kernel + 1, Dim3(3, 1, 1), Dim3(64, 1, 1), None, 0, self.stream))
        self.launches[kernel] += 1


def check(error):
    if error:
        raise SystemExit(f"gpu_job: CUDA says {error}")


def main():
    parser = handshake.parser(__doc__)
    parser.add_argument("--steps", type=int, default=101, help="of each thread")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ranges", action="store_true")
    args = parser.parse_args()
    range_of = contextlib.nullcontext
    if args.ranges:
        from pillion import record_function as range_of
    check(cudart.cudaSetDevice(0))
    handshake.ready(args)
    threads = [Thread(args.steps, range_of) for _ in range(args.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = [sum(thread.launches[kernel] for thread in threads) for kernel in range(len(KERNELS))]
    handshake.answer(
        kernels={name: {"count": count, "ns": count * (1009 + 31 * len(name))} for name, count in zip(KERNELS, counts)},
        launches={thread.native_id: sum(thread.launches) for thread in threads},
        functions={name: sum(thread.calls[name] for thread in threads) for name in ("forward", "backward")},
    )


if __name__ == "__main__":
    main()
