package tensorboard

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A message is a protocol buffer message in its encoding. Its methods append a field.
//
// Of TensorFlow's event.proto, summary.proto and tensor.proto, and of the HParams plugin's plugin_data.proto and
// api.proto, this package writes
//
//	Event      { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
//	             SessionLog session_log = 7; }
//	SessionLog { Status status = 1; }    // START = 1
//	Summary    { repeated Value value = 1; }
//	Value      { string tag = 1; float simple_value = 2; TensorProto tensor = 8; SummaryMetadata metadata = 9; }
//	Metadata   { PluginData plugin_data = 1; string summary_description = 3; DataClass data_class = 4; }
//	PluginData { string plugin_name = 1; bytes content = 2; }
//	Tensor     { DataType dtype = 1; TensorShape shape = 2; repeated bytes string_val = 8; }
//	Shape      { repeated Dim dim = 2; }
//	HParams    { Experiment experiment = 2; SessionStart session_start_info = 3; }
//	Experiment { repeated HParamInfo hparam_infos = 4; repeated MetricInfo metric_infos = 5; }
//	HParamInfo { string name = 1; string description = 3; DataType type = 4; }    // string = 1, bool = 2, float64 = 3
//	MetricInfo { MetricName name = 1; string display_name = 3; string description = 4; }
//	MetricName { string tag = 2; }
//	Start      { map<string, google.protobuf.Value> hparams = 1; double start_time_secs = 5; }
//
// A scalar is a simple_value, which every version of TensorBoard and every other reader supports.
type message []byte

func (m message) text(field protowire.Number, text string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), text)
}

func (m message) message(field protowire.Number, inner message) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), inner)
}

func (m message) varint(field protowire.Number, x uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), x)
}

func (m message) double(field protowire.Number, x float64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), math.Float64bits(x))
}

func (m message) float(field protowire.Number, x float64) message {
	return protowire.AppendFixed32(protowire.AppendTag(m, field, protowire.Fixed32Type), math.Float32bits(float32(x)))
}

// event returns the fields common to all events.
func event(at time.Time, step int64) message {
	m := message(nil).double(1, float64(at.UnixMicro())/1e6)
	if step != 0 { // the default is omitted
		m = m.varint(2, uint64(step))
	}
	return m
}

func versionEvent(at time.Time) message { return event(at, 0).text(3, "brain.Event:2") }

func startEvent(at time.Time) message { return event(at, 0).message(7, message(nil).varint(1, 1)) }

func scalarsEvent(at time.Time, step int64, scalars []Scalar) message {
	var summary message
	for _, s := range scalars {
		value := message(nil).text(1, s.Tag).float(2, s.Value)
		if s.Description != "" {
			scalar := message(nil).message(1, message(nil).text(1, "scalars")).text(3, s.Description).varint(4, 1)
			value = value.message(9, scalar)
		}
		summary = summary.message(1, value)
	}
	return event(at, step).message(5, summary)
}

// A Session describes a run.
type Session struct {
	Settings        string // Markdown, for the Text dashboard
	Hyperparameters []Hyperparameter
	Metrics         []Metric
}

// A Hyperparameter is a column of the HParams dashboard with its value in this run.
type Hyperparameter struct {
	Name, Description string
	Value             any // float64, bool or string
}

// A Metric is a column of the HParams dashboard with a scalar's last value.
type Metric struct {
	Tag, Title, Description string
}

// tensorEvent returns an event with one tensor, of step 0.
func tensorEvent(at time.Time, tag string, tensor, metadata message) message {
	value := message(nil).text(1, tag).message(8, tensor).message(9, metadata)
	return event(at, 0).message(5, message(nil).message(1, value))
}

func textEvent(at time.Time, tag, markdown string) message {
	const stringType = 7
	tensor := message(nil).varint(1, stringType).message(2, nil).text(8, markdown)
	return tensorEvent(at, tag, tensor, message(nil).message(1, message(nil).text(1, "text")).varint(4, 2))
}

// hparamsEvent returns an event whose data are in the metadata: the HParams plugin reads no tensor.
func hparamsEvent(at time.Time, tag string, data message) message {
	const floatType = 1
	empty := message(nil).varint(1, floatType).message(2, message(nil).message(2, nil))
	plugin := message(nil).text(1, "hparams").message(2, data)
	return tensorEvent(at, "_hparams_/"+tag, empty, message(nil).message(1, plugin))
}

func experimentEvent(at time.Time, hyperparameters []Hyperparameter, metrics []Metric) message {
	var experiment message
	for _, h := range hyperparameters {
		kind := uint64(1)
		switch h.Value.(type) {
		case bool:
			kind = 2
		case float64:
			kind = 3
		}
		experiment = experiment.message(4, message(nil).text(1, h.Name).text(3, h.Description).varint(4, kind))
	}
	for _, m := range metrics {
		info := message(nil).message(1, message(nil).text(2, m.Tag)).text(3, m.Title).text(4, m.Description)
		experiment = experiment.message(5, info)
	}
	return hparamsEvent(at, "experiment", message(nil).message(2, experiment))
}

func sessionEvent(at time.Time, hyperparameters []Hyperparameter) message {
	var start message
	for _, h := range hyperparameters {
		var value message // google.protobuf.Value
		switch x := h.Value.(type) {
		case float64:
			value = value.double(2, x)
		case string:
			value = value.text(3, x)
		case bool:
			value = value.varint(4, protowire.EncodeBool(x))
		default:
			panic(fmt.Sprintf("tensorboard: hyperparameter %s is a %T", h.Name, h.Value))
		}
		start = start.message(1, message(nil).text(1, h.Name).message(2, value))
	}
	return hparamsEvent(at, "session_start_info", message(nil).message(3, start.double(5, float64(at.UnixMicro())/1e6)))
}
