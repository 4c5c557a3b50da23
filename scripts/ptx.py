"""Compiles CUDA C++ to PTX with NVRTC: ptx.py FOLDER SOURCE.cu TARGET.ptx [ARCHITECTURE]. FOLDER is .deps/ptx, which
scripts/setup.sh ptx fills; ARCHITECTURE defaults to compute_70. No GPU is needed. The result depends only
on the source, not on its path.
"""

import ctypes
import pathlib
import re
import sys

# fmad: a product and a sum become one operation with one rounding. Results then differ from those of the CPU in the
# last bits, as with cuBLAS, but remain reproducible.
OPTIONS = ["--std=c++17", "--fmad=true"]

OLDEST = "compute_70"

# PTX version that the driver must support for the oldest architecture. NVRTC declares its own version, which only the
# newest drivers support, but uses no feature beyond this one; ptxas, in the tests, would report any.
PTX_VERSION = "7.0"


def compile_ptx(nvrtc, source, architecture):
    program = ctypes.c_void_p()

    def call(name, *args):
        status = getattr(nvrtc, name)(*args)
        if status != 0 and name != "nvrtcCompileProgram":
            sys.exit(f"{source}: {name}: status {status}")
        return status

    def text(get_size, get):
        size = ctypes.c_size_t()
        call(get_size, program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        call(get, program, buffer)
        return buffer.value.decode()

    call("nvrtcCreateProgram", ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None)
    options = [o.encode() for o in OPTIONS + [f"--gpu-architecture={architecture}", f"--include-path={source.parent}"]]
    if call("nvrtcCompileProgram", program, len(options), (ctypes.c_char_p * len(options))(*options)) != 0:
        sys.exit(text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog"))
    return text("nvrtcGetPTXSize", "nvrtcGetPTX")


def main():
    folder, source, target = map(pathlib.Path, sys.argv[1:4])
    architecture = sys.argv[4] if len(sys.argv) > 4 else OLDEST
    # NVRTC loads its builtins by name; loaded beforehand, they need no search path.
    for library in sorted(folder.glob("lib/libnvrtc-builtins.so.*")):
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    ptx = compile_ptx(ctypes.CDLL(str(folder / "lib/libnvrtc.so.12")), source.resolve(), architecture)
    if architecture == OLDEST:
        ptx, replaced = re.subn(r"(?m)^\.version \d+\.\d+$", f".version {PTX_VERSION}", ptx)
        if replaced != 1:
            sys.exit(f"{source}: no .version line in the PTX")
    target.write_text(ptx)


main()
