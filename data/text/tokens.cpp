#include "data/text/tokens.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "data/text/file.h"
#include "tensor/error.h"

namespace tessera::data {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

Tokens::Tokens(std::vector<uint16_t> ids, std::string name) : name_(std::move(name)) {
  auto owner = std::make_shared<const std::vector<uint16_t>>(std::move(ids));
  ids_ = owner->data();
  size_ = static_cast<int64_t>(owner->size());
  owner_ = std::move(owner);
}

Tokens::Tokens(std::shared_ptr<const void> owner, const uint16_t* ids, int64_t size, std::string name)
    : owner_(std::move(owner)), ids_(ids), size_(size), name_(std::move(name)) {}

Tokens Tokens::range(int64_t first, int64_t count, std::string name) const {
  require<DataError>(first >= 0 && count >= 0 && first <= size_ - count, name_, ": expected tokens in [0, ",
                     size_, "), got [", first, ", ", first + count, ")");
  return Tokens(owner_, ids_ + first, count, std::move(name));
}

int64_t Tokens::smallest_vocabulary() const {
  return size_ == 0 ? 0 : 1 + int64_t{*std::max_element(begin(), end())};
}

Tokens map_token_file(const std::string& path) {
  auto file = std::make_shared<const MappedFile>(path, "token file");
  require<DataError>(file->size() > 0, "token file ", path, ": is empty");
  require<DataError>(file->size() % 2 == 0, "token file ", path, ": ", file->size(),
                     " bytes, expected an even number (16-bit ids); it is truncated or of another kind");
  const auto* ids = reinterpret_cast<const uint16_t*>(file->data());
  const auto size = static_cast<int64_t>(file->size() / 2);
  return Tokens(std::move(file), ids, size, path);
}

}  // namespace tessera::data
