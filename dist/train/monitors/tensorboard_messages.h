#pragma once  // internal

#include <cstdint>
#include <span>
#include <string>

#include "dist/train/monitors/monitor.h"

/// Events of TensorBoard's files as serialized protobuf messages (tensorboard_event.proto). Each throws
/// NotBuiltError in a build without protobuf.
namespace tessera::training::wire {

/// The first event of a file, with the version of the format.
std::string file_version_event();
/// Readers drop what earlier files have for `step` and later ones.
std::string session_start_event(int64_t step);
/// The configuration, as the plugin "hparams" reads it.
std::string hyper_parameters_event(int64_t step, const RunDescription& run);
/// The run ended by itself.
std::string session_end_event(int64_t step);
/// The metrics of a step, in f32.
std::string scalars_event(int64_t step, std::span<const MetricValue> values);
/// A histogram, and a scalar NAME/non_finite where there are such elements.
std::string histogram_event(int64_t step, const std::string& name, const tessera::Tensor& values);
/// A text, which TensorBoard shows as Markdown.
std::string text_event(int64_t step, const std::string& name, const std::string& text);
/// The run's name, tags and configuration in Markdown.
std::string markdown_table(const RunDescription& run);

}  // namespace tessera::training::wire
