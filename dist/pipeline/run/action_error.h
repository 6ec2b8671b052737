#pragma once  // internal

#include <string>

#include "dist/pipeline/schedule/action.h"

namespace tessera::dist {

/// In a handler: throws the exception again with the action before its message, as the same type for errors
/// of the library that have no members of their own. Others, such as RankLostError, stay as they are: their
/// message names the value that was waited for.
[[noreturn]] void rethrow_in(const PipelineAction& action);

}  // namespace tessera::dist
