package export

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dbqpg/dbqpg/internal/nn"
)

// Versions of the format that onnxruntime has read since 1.14 (February 2023).
const (
	onnxIR    = 8
	onnxOpset = 18
)

// Numbers of the fields that are used, as in onnx.proto.
const (
	modelIR, modelProducer, modelDoc, modelGraph, modelOpset, modelMetadata = 1, 2, 6, 7, 8, 14
	entryKey, entryValue                                                    = 1, 2
	opsetVersion                                                            = 2
	graphNode, graphName, graphInitializer, graphInput, graphOutput         = 1, 2, 5, 11, 12
	nodeInput, nodeOutput, nodeName, nodeOperator, nodeAttribute            = 1, 2, 3, 4, 5
	attributeName, attributeInt, attributeType                              = 1, 3, 20
	tensorDims, tensorType, tensorName, tensorData                          = 1, 2, 8, 9
	valueName, valueType                                                    = 1, 2
	typeTensor, typeElement, typeShape                                      = 1, 1, 2
	shapeDim, dimValue, dimName                                             = 1, 1, 2

	attributeIsInt = 2
	onnxFloat      = 1
	onnxInt64      = 7
	onnxDouble     = 11
)

// message is a Protocol Buffers message under construction.
type message []byte

func (m *message) int(field protowire.Number, v int) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(v))
}

func (m *message) text(field protowire.Number, s string) { m.message(field, message(s)) }

func (m *message) message(field protowire.Number, b message) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}

// graph is an ONNX graph under construction: a chain of operators, each with the output of the one before as its first
// input.
type graph struct {
	message
	last string // output of the last operator
}

// node appends an operator whose first input is the last one's output. Attributes are integers, by name.
func (g *graph) node(operator, output string, attributes map[string]int, more ...string) {
	var n message
	for _, name := range append([]string{g.last}, more...) {
		n.text(nodeInput, name)
	}
	n.text(nodeOutput, output)
	n.text(nodeName, output)
	n.text(nodeOperator, operator)
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		var a message
		a.text(attributeName, name)
		a.int(attributeInt, attributes[name])
		a.int(attributeType, attributeIsInt)
		n.message(nodeAttribute, a)
	}
	g.message.message(graphNode, n)
	g.last = output
}

// constant appends a float64 array and returns its name.
func (g *graph) constant(name string, values []float64, shape ...int) string {
	var t message
	for _, n := range shape {
		t.int(tensorDims, n)
	}
	t.int(tensorType, onnxDouble)
	t.text(tensorName, name)
	data := make([]byte, 0, 8*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	}
	t.message(tensorData, data)
	g.message.message(graphInitializer, t)
	return name
}

// value describes an input or output: (batch, n) of an element type.
func (g *graph) value(field protowire.Number, name string, element, n int) {
	var batch, width, shape, tensor, kind, v message
	batch.text(dimName, "batch")
	width.int(dimValue, n)
	shape.message(shapeDim, batch)
	shape.message(shapeDim, width)
	tensor.int(typeElement, element)
	tensor.message(typeShape, shape)
	kind.message(typeTensor, tensor)
	v.text(valueName, name)
	v.message(valueType, kind)
	g.message.message(field, v)
}

// linear appends the outputs [from, to) of a layer.
func (g *graph) linear(name string, l nn.Layer, params []float64, from, to int) {
	weight := g.constant("policy."+name+".weight", params[l.Weights+from*l.In:l.Weights+to*l.In], to-from, l.In)
	bias := g.constant("policy."+name+".bias", params[l.Bias+from:l.Bias+to], to-from)
	g.node("Gemm", "layer_"+name, map[string]int{"transB": 1}, weight, bias)
}

// likeliest appends the likeliest choice of each component of the action, whose logits a layer gives.
func (g *graph) likeliest(name string, l nn.Layer, params []float64, choices []int) {
	input, from, outputs := g.last, 0, []string(nil)
	for i, n := range choices {
		g.last = input
		g.linear(fmt.Sprintf("%s.%d", name, i), l, params, from, from+n)
		g.node("ArgMax", fmt.Sprintf("choice_%d", i), map[string]int{"axis": 1})
		outputs, from = append(outputs, g.last), from+n
	}
	g.last = outputs[0]
	g.node("Concat", "action", map[string]int{"axis": 1}, outputs[1:]...)
}

// onnx returns the policy's mode as an ONNX model: observation (batch, o) to action (batch, a), both float32, as actors
// see and take them; discrete actions are int64. In between it computes in float64, as they do: the normaliser subtracts large means and
// divides by small deviations, which float32 would not survive.
func (p *Policy) onnx() []byte {
	g := &graph{last: "observation"}
	g.text(graphName, "policy")
	o, a := p.Shape.Observation, p.Shape.Action
	element := onnxFloat
	if p.Shape.Choices != nil {
		element = onnxInt64
	}
	g.value(graphInput, "observation", onnxFloat, o)
	g.value(graphOutput, "action", element, a)

	g.node("Cast", "observation_float64", map[string]int{"to": onnxDouble})
	g.node("Sub", "centred", nil, g.constant("normalizer.mean", p.Normalizer.Mean, o))
	g.node("Div", "normalized", nil, g.constant("normalizer.scale", p.Normalizer.Scale(), o))
	if clip := p.Normalizer.Clip; clip > 0 {
		low, high := g.constant("observation_low", []float64{-clip}), g.constant("observation_high", []float64{clip})
		g.node("Clip", "clipped", nil, low, high)
	}
	layers := p.Shape.Network().Layers()
	last := len(layers) - 1
	for i, l := range layers[:last] {
		g.linear(strconv.Itoa(i), l, p.Params, 0, l.Out)
		g.node("Tanh", fmt.Sprintf("hidden_%d", i), nil)
	}
	if p.Shape.Choices != nil {
		g.likeliest(strconv.Itoa(last), layers[last], p.Params, p.Shape.Choices)
	} else {
		g.linear(strconv.Itoa(last), layers[last], p.Params, 0, layers[last].Out)
		g.node("Max", "above_low", nil, g.constant("action.low", p.Low, a))
		g.node("Min", "below_high", nil, g.constant("action.high", p.High, a))
		g.node("Cast", "action", map[string]int{"to": onnxFloat})
	}

	var m, opset message
	m.int(modelIR, onnxIR)
	m.text(modelProducer, "dbqpg")
	m.text(modelDoc, "Mode of a policy: the mean action, or the likeliest. Observations are normalised in the graph.")
	m.message(modelGraph, g.message)
	opset.int(opsetVersion, onnxOpset)
	m.message(modelOpset, opset)
	metadata := p.metadata()
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		var entry message
		entry.text(entryKey, key)
		entry.text(entryValue, metadata[key])
		m.message(modelMetadata, entry)
	}
	return m
}
