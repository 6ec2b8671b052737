#pragma once

#include <string>

#include "dist/fsdp/policy.h"

namespace tessera::gptlite {

/// The units of `--auto-wrap`: "block", "size:N" or "none". Throws ConfigError for another form.
dist::UnitPolicy unit_policy(const std::string& auto_wrap);

}  // namespace tessera::gptlite
