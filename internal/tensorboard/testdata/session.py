"""Writes session.tfevents with TensorBoard's own protocol buffers: session.py session.tfevents (pip install tensorboard==2.21.0)."""

import sys

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2, summary_v2
from tensorboard.summary.writer.record_writer import RecordWriter

TIME = 1593142952.25


def main():
    with open(sys.argv[1], "wb") as file:
        writer = RecordWriter(file)

        def write(value, step=0):
            event = event_pb2.Event(wall_time=TIME, step=step)
            event.summary.value.append(value)
            writer.write(event.SerializeToString())

        text = summary_pb2.Summary.Value(tag="settings")
        text.tensor.dtype = 7  # DT_STRING
        text.tensor.tensor_shape.SetInParent()
        text.tensor.string_val.append(b"```yaml\nenv: x\n```\n")
        text.metadata.plugin_data.plugin_name = "text"
        text.metadata.data_class = summary_pb2.DATA_CLASS_TENSOR
        write(text)

        data = plugin_data_pb2.HParamsPluginData()
        for name, description, kind in [
            ("gamma", "discount factor", api_pb2.DATA_TYPE_FLOAT64),
            ("bootstrap", "at the limit", api_pb2.DATA_TYPE_BOOL),
            ("env", "task", api_pb2.DATA_TYPE_STRING),
        ]:
            data.experiment.hparam_infos.add(name=name, description=description, type=kind)
        metric = data.experiment.metric_infos.add(display_name="return", description="Mean return")
        metric.name.tag = "return/mean"
        write(summary_v2._summary_pb(metadata.EXPERIMENT_TAG, data).value[0])

        for name, field, x in [("gamma", "number_value", 0.995), ("bootstrap", "bool_value", False), ("env", "string_value", "x")]:
            data = plugin_data_pb2.HParamsPluginData()
            setattr(data.session_start_info.hparams[name], field, x)
            data.session_start_info.start_time_secs = TIME
            write(summary_v2._summary_pb(metadata.SESSION_START_INFO_TAG, data).value[0])

        scalar = summary_pb2.Summary.Value(tag="return/mean", simple_value=-1.5)
        scalar.metadata.plugin_data.plugin_name = "scalars"
        scalar.metadata.summary_description = "Mean return"
        scalar.metadata.data_class = summary_pb2.DATA_CLASS_SCALAR
        write(scalar, 300)


main()
