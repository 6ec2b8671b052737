#pragma once  // internal

#include <string>

#include "dist/pipeline/schedule/action.h"

namespace tessera::dist {

/// "1F3 (stage 1, micro-batch 3)".
std::string place_text(const PipelineAction& action);

/// In a handler: throws the exception again with the action before its message, as the same type for errors
/// of the library and of <stdexcept> that are a message alone. Others stay as they are: those of a program,
/// and those of the communicator, such as RankLostError, which name the value that was waited for. An
/// OutOfMemoryError also has what takes less, and `live`, the micro-batches that this rank holds.
[[noreturn]] void rethrow_in(const PipelineAction& action, size_t live);

}  // namespace tessera::dist
