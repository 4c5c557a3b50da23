package tensorboard

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Hyperparameter is a column of the HParams dashboard with its value in this run.
type Hyperparameter struct {
	Name, Description string
	Value             any // float64, bool or string
}

// A Metric is a column of the HParams dashboard with a scalar's last value.
type Metric struct {
	Tag, Title, Description string
}

// A Session describes a run.
type Session struct {
	Settings        string // Markdown, for the Text dashboard
	Hyperparameters []Hyperparameter
	Metrics         []Metric
}

// Describe writes the session at a step, the first that will be written.
func (w *Writer) Describe(step int64, s Session) error {
	now := time.Now()
	records := appendRecord(nil, textEvent(now, step, "settings", s.Settings))
	records = appendRecord(records, experimentEvent(now, step, s.Hyperparameters, s.Metrics))
	records = appendRecord(records, sessionEvent(now, step, s.Hyperparameters))
	if _, err := w.file.Write(records); err != nil {
		return fmt.Errorf("write the description of the run: %w", err)
	}
	return nil
}

// Numbers of fields and of values, as in summary.proto, tensor.proto, and the HParams plugin's plugin_data.proto and api.proto.
const (
	valueTensor       = 8
	valueMetadata     = 9
	metadataPlugin    = 1
	metadataSummary   = 3
	metadataDataClass = 4
	pluginName        = 1
	pluginContent     = 2
	classUnset        = 0 // TensorBoard knows it by the plugin
	classScalar       = 1
	classTensor       = 2

	tensorType   = 1
	tensorShape  = 2
	tensorString = 8
	shapeDim     = 2
	typeFloat    = 1
	typeString   = 7

	hparamsExperiment = 2
	hparamsStart      = 3

	experimentHparam = 4
	experimentMetric = 5
	infoName         = 1
	infoDescription  = 3
	infoType         = 4
	metricName       = 1
	metricTitle      = 3
	metricText       = 4
	metricNameTag    = 2
	startHparams     = 1
	startTime        = 5
	mapKey           = 1
	mapValue         = 2
	structNumber     = 2
	structString     = 3
	structBool       = 4
	hparamString     = 1
	hparamBool       = 2
	hparamFloat64    = 3
)

func appendString(out []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(out, number, protowire.BytesType), text)
}

func appendMessage(out []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), message)
}

func appendVarint(out []byte, number protowire.Number, x uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(out, number, protowire.VarintType), x)
}

func appendDouble(out []byte, number protowire.Number, x float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(out, number, protowire.Fixed64Type), math.Float64bits(x))
}

// metadata returns the metadata of a plugin's tags.
func metadata(plugin string, content []byte, description string, class uint64) []byte {
	data := appendString(nil, pluginName, plugin)
	if content != nil {
		data = appendMessage(data, pluginContent, content)
	}
	out := appendMessage(nil, metadataPlugin, data)
	if description != "" {
		out = appendString(out, metadataSummary, description)
	}
	if class == classUnset {
		return out
	}
	return appendVarint(out, metadataDataClass, class)
}

// tensorEvent returns an event with one tensor.
func tensorEvent(at time.Time, step int64, tag string, tensor, metadata []byte) []byte {
	value := appendString(nil, valueTag, tag)
	value = appendMessage(value, valueTensor, tensor)
	value = appendMessage(value, valueMetadata, metadata)
	return appendMessage(appendEvent(nil, at, step), eventSummary, appendMessage(nil, summaryValue, value))
}

func textEvent(at time.Time, step int64, tag, markdown string) []byte {
	tensor := appendVarint(nil, tensorType, typeString)
	tensor = appendMessage(tensor, tensorShape, nil)
	tensor = appendString(tensor, tensorString, markdown)
	return tensorEvent(at, step, tag, tensor, metadata("text", nil, "", classTensor))
}

// hparamsEvent returns an event whose data are in the metadata: the HParams plugin reads no tensor.
func hparamsEvent(at time.Time, step int64, tag string, number protowire.Number, message []byte) []byte {
	empty := appendVarint(nil, tensorType, typeFloat)
	empty = appendMessage(empty, tensorShape, appendMessage(nil, shapeDim, nil))
	return tensorEvent(at, step, "_hparams_/"+tag, empty, metadata("hparams", appendMessage(nil, number, message), "", classUnset))
}

func experimentEvent(at time.Time, step int64, hyperparameters []Hyperparameter, metrics []Metric) []byte {
	var experiment []byte
	for _, h := range hyperparameters {
		info := appendString(nil, infoName, h.Name)
		info = appendString(info, infoDescription, h.Description)
		kind := uint64(hparamString)
		switch h.Value.(type) {
		case bool:
			kind = hparamBool
		case float64:
			kind = hparamFloat64
		}
		experiment = appendMessage(experiment, experimentHparam, appendVarint(info, infoType, kind))
	}
	for _, m := range metrics {
		info := appendMessage(nil, metricName, appendString(nil, metricNameTag, m.Tag))
		info = appendString(info, metricTitle, m.Title)
		experiment = appendMessage(experiment, experimentMetric, appendString(info, metricText, m.Description))
	}
	return hparamsEvent(at, step, "experiment", hparamsExperiment, experiment)
}

func sessionEvent(at time.Time, step int64, hyperparameters []Hyperparameter) []byte {
	var start []byte
	for _, h := range hyperparameters {
		var value []byte
		switch x := h.Value.(type) {
		case float64:
			value = appendDouble(nil, structNumber, x)
		case bool:
			value = appendVarint(nil, structBool, protowire.EncodeBool(x))
		case string:
			value = appendString(nil, structString, x)
		default:
			panic(fmt.Sprintf("tensorboard: hyperparameter %s is a %T", h.Name, h.Value))
		}
		start = appendMessage(start, startHparams, appendMessage(appendString(nil, mapKey, h.Name), mapValue, value))
	}
	start = appendDouble(start, startTime, float64(at.UnixMicro())/1e6)
	return hparamsEvent(at, step, "session_start_info", hparamsStart, start)
}
