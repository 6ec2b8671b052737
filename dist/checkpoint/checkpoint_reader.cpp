#include "dist/checkpoint/checkpoint_reader.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <set>

#include "dist/checkpoint/number_check.h"
#include "dist/checkpoint/own_pieces.h"
#include "tensor/ops/cast.h"

namespace tessera::dist {
namespace {

/// A piece of a file that is hashed and looked through at a time: a multiple of every element's size.
constexpr int64_t block_bytes = int64_t{1} << 20;

/// Hashes a file from front to back.
class FileHash {
 public:
  explicit FileHash(const io::InputFile& file) : file_(file), state_(XXH3_createState(), &XXH3_freeState) {
    XXH3_64bits_reset(state_.get());
  }
  /// The next `size` bytes, at most a block's; they stay until the next call.
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
    const int64_t bad = found < 0 ? first_bad_number(entry.dtype, bytes, length) : -1;
    if (bad >= 0) found = begin + bad;
  }
  return found;
}

}  // namespace

void require_recorded(const FileRecord& record, const io::SafetensorsFile& file) {
  require<CheckpointError>(file.file().size() == record.bytes, file.path(), ": expected ", record.bytes,
                           " bytes, got ", file.file().size());
  require<CheckpointError>(file.entries().size() == record.chunks.size(), file.path(), ": expected ",
                           record.chunks.size(), " tensors, got ", file.entries().size());
  for (const Chunk& chunk : record.chunks) {
    const io::SafetensorsEntry& entry = file.entry(chunk.key);
    require<CheckpointError>(entry.dtype_name() == io::safetensors_dtype_name(chunk.dtype) &&
                                 entry.shape.numel() == chunk.piece.numel(),
                             file.path(), ": tensor '", chunk.key, "': expected ", chunk.piece.numel(),
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
      problem = text("tensor '", entry->name, "': element ", bad, " is ", bad_number_name(entry->dtype));
  }
  hash.skip_to(record.bytes);
  // A damaged file is called that, whatever its damage looks like.
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
    require_recorded(record, opened_.back());
  }
  tensors_ = assemble_tensors(meta_.files, meta);
}

const StoredTensor& CheckpointReader::tensor(const TensorId& id) const {
  const auto found = tensors_.find(id);
  if (found == tensors_.end()) {
    const std::vector<TensorId> own = own_tensors(tensors_, id);
    require<CheckpointError>(own.empty(), folder_, ": has no tensor '", id, "' of all ranks, but '",
                             own.empty() ? "" : own.front().name, "' and ", own.size() - 1,
                             " more: each rank's own values, which ranks of the same mesh load");
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

void CheckpointReader::read(const TensorId& id, const Piece& piece, const Tensor& out) const {
  const StoredTensor& stored = tensor(id);
  const std::string where = text(folder_, ": tensor '", id, "'");
  const std::string problem = problem_of(piece, stored.shape);
  require<CheckpointError>(problem.empty(), where, ": ", problem);
  require<CheckpointError>(out.dtype() == stored.dtype && out.numel() == piece.numel() && out.is_contiguous(),
                           where, ": expected room for ", piece.numel(), " elements of ", stored.dtype,
                           ", got ", describe(out));
  char* bytes = static_cast<char*>(out.raw_data());
  for (const StoredChunk& source : stored.chunks) {
    const io::SafetensorsFile& file = opened_[source.file];
    const io::SafetensorsEntry& entry = file.entry(source.chunk->key);
    // Both ascend: one walk finds every overlap.
    RunCursor held(source.chunk->piece, stored.shape), wanted(piece, stored.shape);
    while (!held.is_done() && !wanted.is_done()) {
      const Run &from = held.run(), &to = wanted.run();
      const int64_t begin = std::max(from.position, to.position);
      const int64_t end = std::min(from.position + from.length, to.position + to.length);
      if (begin < end)
        file.read(entry, from.offset + begin - from.position, from.offset + end - from.position,
                  bytes + (to.offset + begin - to.position) * size_of(stored.dtype));
      // Whichever ends first goes on to what is not before the other; both, where they end together.
      const int64_t done = std::max(begin, end);
      held.skip_to(done);
      wanted.skip_to(done);
    }
  }
  out.bump_version();
}

void require_same_tensors(const CheckpointReader& reader, const PieceGroup& group) {
  std::set<std::string> names, own;
  for (const TensorPiece& item : group.pieces) {
    require<CheckpointError>(item.tensor.defined() && !item.tensor.is_meta(), group.name, "/", item.name,
                             ": expected a tensor to load into, got ", describe(item.tensor));
    names.insert(item.name);
    if (!item.own.empty()) own.insert(shared_name(item.name));
    const StoredTensor& stored = reader.tensor({group.name, item.name});
    require<CheckpointError>(stored.shape == item.shape && stored.dtype == item.tensor.dtype(),
                             reader.folder(), ": tensor '", group.name, "/", item.name, "': expected ",
                             item.shape, " ", item.tensor.dtype(), ", the checkpoint has ", stored.shape, " ",
                             stored.dtype);
  }
  for (const auto& [id, stored] : reader.tensors())
    require<CheckpointError>(
        id.group != group.name || names.contains(id.name) || own.contains(shared_name(id.name)),
        reader.folder(), ": has an unexpected tensor '", id, "', ", stored.shape, " ", stored.dtype);
}

void read_pieces(const CheckpointReader& reader, const PieceGroup& group) {
  fill_pieces(reader, group);
  round_pieces(group);
}

void fill_pieces(const CheckpointReader& reader, const PieceGroup& group) {
  for (const TensorPiece& item : group.pieces) {
    const bool direct = item.tensor.device().is_cpu() && item.tensor.is_contiguous();
    const Tensor numbers = direct ? item.tensor : Tensor::empty(item.tensor.shape(), item.tensor.dtype());
    reader.read({group.name, item.name}, item.piece, numbers);
    if (!direct) item.tensor.copy_from(numbers.to(item.tensor.device()));
  }
}

void round_pieces(const PieceGroup& group) {
  for (const TensorPiece& item : group.pieces)
    if (item.rounded.defined()) ops::cast_out(item.tensor, item.rounded);
}

void load_checkpoint(const CheckpointReader& reader, std::span<const TensorGroup> groups) {
  for (const TensorGroup& group : groups) require_same_tensors(reader, whole_pieces(group));
  for (const TensorGroup& group : groups) reader.verify(group.name);
  for (const TensorGroup& group : groups) read_pieces(reader, whole_pieces(group));
}

}  // namespace tessera::dist
