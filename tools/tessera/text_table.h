#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::tools {

/// Rows of cells as lines of aligned columns. A column that has only numbers below its first row is aligned
/// to the right.
std::string text_table(const std::vector<std::vector<std::string>>& rows);

/// "512 B", "1.5 KiB", "12.3 GiB".
std::string byte_text(int64_t bytes);

}  // namespace tessera::tools
