#include "dist/checkpoint/checkpoint_reader.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <set>

#include "dist/checkpoint/rank_local.h"
#include "dist/checkpoint/value_check.h"
#include "tensor/ops/elementwise/cast.h"

namespace tessera::dist {
namespace {

/// Bytes of a file that are hashed and checked at once: a multiple of every element size.
constexpr int64_t block_bytes = int64_t{1} << 20;

/// Hashes a file from its first byte to its last.
class FileHash {
 public:
  explicit FileHash(const io::InputFile& file) : file_(file), state_(XXH3_createState(), &XXH3_freeState) {
    XXH3_64bits_reset(state_.get());
  }
  /// Reads and hashes the next `size` bytes, at most `block_bytes`. They are valid until the next call.
  const char* next(int64_t size) {
    file_.read(position_, buffer_.data(), size);
    XXH3_64bits_update(state_.get(), buffer_.data(), static_cast<size_t>(size));
    position_ += size;
    return buffer_.data();
  }
  void skip_to(int64_t position) {
    while (position_ < position) next(std::min(block_bytes, position - position_));
  }
  uint64_t digest() const { return XXH3_64bits_digest(state_.get()); }

 private:
  const io::InputFile& file_;
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
  std::vector<char> buffer_ = std::vector<char>(block_bytes);
  int64_t position_ = 0;
};

/// Hashes the bytes of one tensor; returns its first bad element, or -1.
int64_t hash_tensor(FileHash& hash, const io::SafetensorsEntry& entry) {
  const int64_t size = size_of(entry.dtype), n = entry.shape.numel(), block = block_bytes / size;
  int64_t found = -1;
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t length = std::min(block, n - begin);
    const char* bytes = hash.next(length * size);
    const int64_t bad = found < 0 ? first_invalid_value(entry.dtype, bytes, length) : -1;
    if (bad >= 0) found = begin + bad;
  }
  return found;
}

}  // namespace

void verify_header(const FileRecord& record, const io::SafetensorsFile& file) {
  require<CheckpointError>(file.file().size() == record.bytes, file.path(), ": expected ", record.bytes,
                           " bytes, got ", file.file().size());
  require<CheckpointError>(file.entries().size() == record.chunks.size(), file.path(), ": expected ",
                           record.chunks.size(), " tensors, got ", file.entries().size());
  for (const Chunk& chunk : record.chunks) {
    const io::SafetensorsEntry& entry = file.entry(chunk.key);
    require<CheckpointError>(entry.dtype_name() == io::safetensors_dtype_name(chunk.dtype) &&
                                 entry.shape.numel() == chunk.range.numel(),
                             file.path(), ": tensor '", chunk.key, "': expected ", chunk.range.numel(),
                             " elements of ", chunk.dtype, ", got ", entry.shape, " ", entry.dtype_name());
  }
}

void verify_content(const FileRecord& record, const io::SafetensorsFile& file) {
  std::vector<const io::SafetensorsEntry*> entries;
  for (const io::SafetensorsEntry& entry : file.entries()) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](const io::SafetensorsEntry* a, const io::SafetensorsEntry* b) {
    return a->offset < b->offset;
  });
  FileHash hash(file.file());
  std::string problem;
  for (const io::SafetensorsEntry* entry : entries) {
    hash.skip_to(entry->offset);
    const int64_t bad = hash_tensor(hash, *entry);
    if (bad >= 0 && problem.empty())
      problem = text("tensor '", entry->name, "': element ", bad, " is ", bad_value_name(entry->dtype));
  }
  hash.skip_to(record.bytes);
  // First the hash: a damaged file may also appear to hold NaN.
  require<CheckpointError>(hash.digest() == record.xxh3, file.path(),
                           ": its content is not what was written: expected xxh3 ", hash_text(record.xxh3),
                           ", got ", hash_text(hash.digest()));
  require<CheckpointError>(problem.empty(), file.path(), ": ", problem);
}

CheckpointReader::CheckpointReader(std::string folder) : folder_(std::move(folder)) {
  const std::string meta = folder_ + "/" + meta_file_name;
  const std::string index = io::read_text_file(meta, meta_size_limit);
  hash_ = XXH3_64bits(index.data(), index.size());
  meta_ = parse_checkpoint_meta(index, meta);
  for (const FileRecord& record : meta_.files) {
    opened_.emplace_back(folder_ + "/" + record.name);
    verify_header(record, opened_.back());
  }
  tensors_ = assemble_tensors(meta_.files, meta);
}

const StoredTensor& CheckpointReader::tensor(const TensorId& id) const {
  const auto found = tensors_.find(id);
  if (found == tensors_.end()) {
    const std::vector<TensorId> own = tensors_by_place(tensors_, id);
    require<CheckpointError>(own.empty(), folder_, ": tensor '", id,
                             "': expected values that all ranks share, got ", own.size(),
                             " tensors of each rank's own values ('", own.empty() ? "" : own.front().name,
                             "', ...), to be loaded on the same mesh");
    throw CheckpointError(text(folder_, ": has no tensor '", id, "'"));
  }
  return found->second;
}

void CheckpointReader::verify_file(size_t index) const {
  verify_content(meta_.files[index], opened_[index]);
}

bool CheckpointReader::file_has(size_t index, const std::string& group) const {
  const std::vector<Chunk>& chunks = meta_.files[index].chunks;
  return std::any_of(chunks.begin(), chunks.end(),
                     [&](const Chunk& chunk) { return chunk.tensor.group == group; });
}

void CheckpointReader::verify(const std::string& group) const {
  for (size_t i = 0; i < meta_.files.size(); ++i)
    if (group.empty() || file_has(i, group)) verify_file(i);
}

void CheckpointReader::read(const TensorId& id, const TensorRange& range, const Tensor& out) const {
  const StoredTensor& stored = tensor(id);
  const std::string where = text(folder_, ": tensor '", id, "'");
  const std::string problem = problem_of(range, stored.shape);
  require<CheckpointError>(problem.empty(), where, ": ", problem);
  require<CheckpointError>(out.dtype() == stored.dtype && out.numel() == range.numel() && out.is_contiguous(),
                           where, ": expected a contiguous tensor of ", range.numel(), " elements of ",
                           stored.dtype, ", got ", describe(out));
  char* bytes = static_cast<char*>(out.raw_data());
  for (const StoredChunk& source : stored.chunks) {
    const io::SafetensorsFile& file = opened_[source.file];
    const io::SafetensorsEntry& entry = file.entry(source.chunk->key);
    // Both are in ascending order: one pass finds every overlap.
    RangeCursor stored_ranges(source.chunk->range, stored.shape), requested(range, stored.shape);
    while (!stored_ranges.is_done() && !requested.is_done()) {
      const ContiguousRange &from = stored_ranges.current(), &to = requested.current();
      const int64_t begin = std::max(from.position, to.position);
      const int64_t end = std::min(from.position + from.length, to.position + to.length);
      if (begin < end)
        file.read(entry, from.offset + begin - from.position, from.offset + end - from.position,
                  bytes + (to.offset + begin - to.position) * size_of(stored.dtype));
      // Skips ranges that end before the next possible overlap.
      const int64_t done = std::max(begin, end);
      stored_ranges.skip_to(done);
      requested.skip_to(done);
    }
  }
  out.bump_version();
}

void require_same_tensors(const CheckpointReader& reader, const GroupShard& group) {
  std::set<std::string> names, own;
  for (const TensorShard& shard : group.shards) {
    require<CheckpointError>(shard.tensor.defined() && !shard.tensor.is_meta(), group.name, "/", shard.name,
                             ": expected a tensor to load into, got ", describe(shard.tensor));
    names.insert(shard.name);
    if (!shard.rank_place.empty()) own.insert(name_without_place(shard.name));
    const StoredTensor& stored = reader.tensor({group.name, shard.name});
    require<CheckpointError>(stored.shape == shard.shape && stored.dtype == shard.tensor.dtype(),
                             reader.folder(), ": tensor '", group.name, "/", shard.name, "': expected ",
                             shard.shape, " ", shard.tensor.dtype(), ", the checkpoint has ", stored.shape,
                             " ", stored.dtype);
  }
  for (const auto& [id, stored] : reader.tensors())
    require<CheckpointError>(
        id.group != group.name || names.contains(id.name) || own.contains(name_without_place(id.name)) ||
            group.elsewhere.contains(id.name.substr(id.name.find('/') + 1)),
        reader.folder(), ": has an unexpected tensor '", id, "', ", stored.shape, " ", stored.dtype);
}

void read_shards(const CheckpointReader& reader, const GroupShard& group) {
  fill_shards(reader, group);
  round_shards(group);
}

void fill_shards(const CheckpointReader& reader, const GroupShard& group) {
  for (const TensorShard& shard : group.shards) {
    const bool direct = shard.tensor.device().is_cpu() && shard.tensor.is_contiguous();
    const Tensor values = direct ? shard.tensor : Tensor::empty(shard.tensor.shape(), shard.tensor.dtype());
    reader.read({group.name, shard.name}, shard.range, values);
    if (!direct) shard.tensor.copy_from(values.to(shard.tensor.device()));
  }
}

void round_shards(const GroupShard& group) {
  for (const TensorShard& shard : group.shards)
    if (shard.rounded.defined()) ops::cast_out(shard.tensor, shard.rounded);
}

void load_checkpoint(const CheckpointReader& reader, std::span<const TensorGroup> groups) {
  for (const TensorGroup& group : groups) require_same_tensors(reader, unsharded(group));
  for (const TensorGroup& group : groups) reader.verify(group.name);
  for (const TensorGroup& group : groups) read_shards(reader, unsharded(group));
}

}  // namespace tessera::dist
