package runs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/nn"
	"github.com/dbqpg/dbqpg/internal/safetensors"
)

const (
	paramsSuffix = ".params"
	// logStdName is the tensor after the layers in the parameters of a policy that has no choicesName.
	policyName, logStdName, choicesName = "policy", "log_std", "action.choices"
)

func weightName(network string, layer int) string { return fmt.Sprintf("%s.%d.weight", network, layer) }
func biasName(network string, layer int) string   { return fmt.Sprintf("%s.%d.bias", network, layer) }

// Layers returns the tensors of a network's parameters: NETWORK.0.weight (out, in), NETWORK.0.bias (out),
// NETWORK.1.weight, ... Parameters beyond the network's are left out.
func Layers(network string, mlp nn.MLP, params []float64) []safetensors.Tensor {
	var all []safetensors.Tensor
	for i, l := range mlp.Layers() {
		all = append(all, safetensors.New(weightName(network, i), []int{l.Out, l.In}, params[l.Weights:l.Bias]),
			safetensors.New(biasName(network, i), []int{l.Out}, params[l.Bias:l.End()]))
	}
	return all
}

// tensors returns the file's arrays, sorted by name: a network's parameters layer by layer, the others as they are.
func (s *State) tensors() []safetensors.Tensor {
	var all []safetensors.Tensor
	for name, values := range s.Arrays {
		network, params := strings.CutSuffix(name, paramsSuffix)
		sizes, ok := s.Networks[network]
		if !ok || !params {
			all = append(all, safetensors.New(name, []int{len(values)}, values))
			continue
		}
		mlp := nn.MLP{Sizes: sizes}
		all = append(all, Layers(network, mlp, values)...)
		switch rest := values[mlp.NumParams():]; {
		case len(rest) == 0:
		case network == policyName:
			all = append(all, safetensors.New(logStdName, []int{len(rest)}, rest))
		default:
			panic(fmt.Sprintf("runs: %s has %d numbers, and a network of sizes %v has %d",
				name, len(values), sizes, mlp.NumParams()))
		}
	}
	slices.SortFunc(all, func(a, b safetensors.Tensor) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// assemble sets Arrays and Networks from a file's tensors: the inverse of tensors.
func (s *State) assemble(f *safetensors.File) error {
	s.Arrays = map[string][]float64{}
	used := map[string]bool{checksumName: true}
	for _, t := range f.Tensors {
		network, ok := strings.CutSuffix(t.Name, ".0.weight")
		if !ok {
			continue
		}
		parts, sizes, err := layers(f, network)
		var params []float64
		for _, part := range parts {
			used[part.Name] = true
			if err == nil {
				params, err = part.Append(params)
			}
		}
		if err != nil {
			return err
		}
		if s.Networks == nil {
			s.Networks = map[string][]int{}
		}
		s.Arrays[network+paramsSuffix], s.Networks[network] = params, sizes
	}
	for _, t := range f.Tensors {
		if used[t.Name] {
			continue
		}
		if _, twice := s.Arrays[t.Name]; twice {
			return fmt.Errorf("tensor %.40q is there a second time, in layers", t.Name)
		}
		var err error
		if s.Arrays[t.Name], err = t.Values(); err != nil {
			return err
		}
	}
	return nil
}

// layers returns a network's tensors in the order of its parameters, and the sizes of its layers.
func layers(f *safetensors.File, network string) (parts []safetensors.Tensor, sizes []int, err error) {
	for i := 0; ; i++ {
		weight, ok := f.Tensor(weightName(network, i))
		if !ok {
			break
		}
		bias, _ := f.Tensor(biasName(network, i))
		if len(weight.Shape) != 2 || !slices.Equal(bias.Shape, weight.Shape[:1]) || slices.Min(weight.Shape) < 1 ||
			i > 0 && weight.Shape[1] != sizes[i] {
			return nil, nil, fmt.Errorf("tensor %.40q: shape %v, of its bias %v, fits no layer",
				weight.Name, weight.Shape, bias.Shape)
		}
		if i == 0 {
			sizes = append(sizes, weight.Shape[1])
		}
		sizes = append(sizes, weight.Shape[0])
		parts = append(parts, weight, bias)
	}
	if _, discrete := f.Tensor(choicesName); network == policyName && !discrete {
		logStd, ok := f.Tensor(logStdName)
		if want := sizes[len(sizes)-1:]; !ok || !slices.Equal(logStd.Shape, want) {
			return nil, nil, fmt.Errorf("tensor %q: missing or of shape %v, want %v", logStdName, logStd.Shape, want)
		}
		parts = append(parts, logStd)
	}
	return parts, sizes, nil
}
