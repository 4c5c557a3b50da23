//go:build gpu

package cuda

import (
	"embed"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"runtime"
	"strings"
	"unsafe"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"gorgonia.org/cu"
)

//go:embed kernels/*.ptx
var ptx embed.FS

// kernel is a kernel that the driver has compiled. params has a letter for each parameter:
// 'u' for an integer or pointer of eight bytes, 'f' for a float64.
type kernel struct {
	function cu.Function
	params   string
}

// The entry points of a PTX module with their parameter lists.
var (
	entry     = regexp.MustCompile(`(?s)\.visible \.entry (\w+)\((.*?)\)`)
	parameter = regexp.MustCompile(`\.param \.(\w+)`)
)

// entries returns the parameters of a module's kernels by name, from their declarations.
func entries(ptx string) (map[string]string, error) {
	found := map[string]string{}
	for _, declaration := range entry.FindAllStringSubmatch(ptx, -1) {
		var params strings.Builder
		for _, p := range parameter.FindAllStringSubmatch(declaration[2], -1) {
			switch p[1] {
			case "u64", "b64", "s64":
				params.WriteByte('u')
			case "f64":
				params.WriteByte('f')
			default:
				return nil, fmt.Errorf("kernel %s has a parameter of type %s: it must have 8 bytes", declaration[1],
					p[1])
			}
		}
		found[declaration[1]] = params.String()
	}
	return found, nil
}

// loadModules has the driver compile the kernels.
func (b *Backend) loadModules() {
	names, err := fs.Glob(ptx, "kernels/*.ptx")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		text, err := ptx.ReadFile(name)
		if err != nil {
			panic(err)
		}
		b.loadModule(strings.TrimSuffix(path.Base(name), ".ptx"), string(text))
	}
}

func (b *Backend) loadModule(name, text string) {
	declared, err := entries(text)
	if err != nil {
		panic("cuda: " + err.Error())
	}
	var module cu.Module
	log := &cu.JITErrorLogBuffer{Buffer: make([]byte, 16<<10)}
	b.do("cuModuleLoadDataEx", func() error {
		module, err = cu.LoadDataEx(text, log)
		runtime.KeepAlive(log)
		return nil
	})
	if err != nil {
		message, _, _ := strings.Cut(string(log.Buffer), "\x00")
		device := fmt.Sprintf("%s (compute capability %s)", b.info.Name, b.info.Capability)
		fail(&PTXError{name, device, Driver(), message, err})
	}
	b.modules = append(b.modules, module)
	for kernelName, params := range declared {
		k := &kernel{params: params}
		b.do("cuModuleGetFunction("+kernelName+")", func() (err error) {
			k.function, err = module.Function(kernelName)
			return err
		})
		b.kernels[kernelName] = k
	}
}

// arg is an argument of a kernel: eight bytes, as gorgonia.org/cu copies no more.
type arg struct {
	bits uint64
	kind byte // as in kernel.params
}

// ptr passes the address of the block's first element.
func ptr(x compute.Block) arg { return arg{uint64(address(x)), 'u'} }

// device passes an address in the memory of the device.
func device(p cu.DevicePtr) arg { return arg{uint64(p), 'u'} }

// long passes an integer, a long long in CUDA.
func long(n int) arg { return arg{uint64(n), 'u'} }

// real passes a float64.
func real(v float64) arg { return arg{math.Float64bits(v), 'f'} }

// dim is the shape of a grid, in blocks, or of a block, in threads.
type dim struct{ x, y, z int }

// line returns the shape n × 1 × 1.
func line(n int) dim { return dim{n, 1, 1} }

// maxArgs is the maximum number of arguments of a kernel.
const maxArgs = 24

// launcher holds the arguments of the launch in progress where cu.Function.Launch
// can find them by their address, so that a launch allocates no Go memory.
type launcher struct {
	values   [maxArgs]uint64
	pointers [maxArgs]unsafe.Pointer
}

// prepare makes the addresses, once.
func (l *launcher) prepare() {
	for i := range l.values {
		l.pointers[i] = unsafe.Pointer(&l.values[i])
	}
}

// launch starts a kernel in the stream and does not wait for it. It panics if the arguments
// do not match the kernel's parameters, and does nothing for a grid without blocks.
func (b *Backend) launch(name string, grid, block dim, args ...arg) {
	if grid.x == 0 || grid.y == 0 || grid.z == 0 {
		return
	}
	k := b.kernels[name]
	if k == nil {
		panic("cuda: there is no kernel " + name)
	}
	if len(args) != len(k.params) {
		panic(fmt.Sprintf("cuda: kernel %s takes %d arguments, not %d", name, len(k.params), len(args)))
	}
	for i, a := range args {
		if a.kind != k.params[i] {
			panic(fmt.Sprintf("cuda: argument %d of kernel %s is of the wrong type", i, name))
		}
		b.values[i] = a.bits
	}
	runtime.LockOSThread()
	err := cu.SetCurrentContext(b.context)
	if err == nil {
		err = k.function.Launch(grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, b.stream, b.pointers[:len(args)])
	}
	runtime.UnlockOSThread()
	if err != nil {
		fail(explain("the launch of "+name, err))
	}
}
