#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/text/corpus.h"
#include "dist/fsdp/policy.h"
#include "dist/train/config/stage_options.h"
#include "optim/schedules/schedule.h"
#include "tensor/device.h"
#include "tools/gptlite/options.h"

namespace tessera::gptlite {

/// The number of sequences of a batch that each rank computes. Throws ConfigError unless the batch divides
/// evenly.
int64_t samples_per_rank(const Run& run);

/// The stages of a run, without the costs of its layers.
training::StageOptions stage_options(const Run& run);

/// f32 for "fp32", bf16 for "bf16", f16 for "fp16". Throws ConfigError for another name.
DType compute_dtype(const std::string& name);

/// The learning rates of a run: the cosine of its preset, or the schedule of `Run::scheduler`. Throws
/// ConfigError for a text that is none.
optim::Schedule schedule_of(const Run& run);

/// The units of `--auto-wrap`: "block", "size:N" or "none". Throws ConfigError for another form.
dist::UnitPolicy unit_policy(const std::string& auto_wrap);

/// Sets the number of threads; returns the device. Throws ConfigError or NotBuiltError for a device that this
/// build does not support.
Device apply_device(const DeviceOptions& options);
/// Whether the device is a simulated card, whose times say nothing about a card's.
bool is_simulated(Device device);
/// "cpu", "cuda:1", or "cuda:0, simulated".
std::string describe_device(Device device);

/// Opens a corpus; `vocabulary` and `vocabulary_size` as in data::CorpusOptions.
data::Corpus open_data(const std::string& dataset, const std::string& data,
                       std::optional<data::CharacterVocabulary> vocabulary = std::nullopt,
                       int64_t vocabulary_size = 0);

}  // namespace tessera::gptlite
