#include "dist/checkpoint/coverage.h"

#include <algorithm>

namespace tessera::dist {
namespace {

/// A box of a tensor's elements, [start, end) in each dimension, and the file that holds it.
struct Box {
  Shape start, end;
  size_t file = 0;
};

/// Adds the boxes that cover elements [begin, end) of the row-major order of `box` from dimension `d` on: the
/// incomplete first and last row, and the rows between them. At most two for each dimension.
void add_boxes(const Box& box, int d, int64_t begin, int64_t end, std::vector<Box>& boxes) {
  if (begin == end) return;
  if (d == box.start.ndim()) return boxes.push_back(box);
  int64_t row_size = 1;
  for (int inner = d + 1; inner < box.start.ndim(); ++inner) row_size *= box.end[inner] - box.start[inner];
  const auto rows = [&](int64_t from, int64_t to) {
    Box result = box;
    result.start[d] = box.start[d] + from;
    result.end[d] = box.start[d] + to;
    return result;
  };
  int64_t first = begin / row_size;
  const int64_t last = end / row_size, first_offset = begin % row_size, last_offset = end % row_size;
  if (first == last) return add_boxes(rows(first, first + 1), d + 1, first_offset, last_offset, boxes);
  if (first_offset != 0) {
    add_boxes(rows(first, first + 1), d + 1, first_offset, row_size, boxes);
    ++first;
  }
  if (first < last) boxes.push_back(rows(first, last));
  if (last_offset != 0) add_boxes(rows(last, last + 1), d + 1, 0, last_offset, boxes);
}

/// Checks that boxes cover each element of a tensor exactly once. Time and memory depend on the number of
/// boxes and not on their numbers of rows.
class CoverageCheck {
 public:
  CoverageCheck(const StoredTensor& tensor, const std::vector<FileRecord>& files, std::string where)
      : shape_(tensor.shape),
        files_(files),
        where_(std::move(where)),
        index_(Shape::filled(tensor.shape.ndim(), 0)) {
    for (const StoredChunk& stored : tensor.chunks) {
      const TensorRange& range = stored.chunk->range;
      Box box{range.start, range.start, stored.file};
      for (int d = 0; d < shape_.ndim(); ++d) box.end[d] += range.extent[d];
      add_boxes(box, 0, range.begin, range.end, boxes_);
    }
  }

  void require_exact_cover() {
    if (shape_.numel() == 0) return;
    std::vector<const Box*> all;
    for (const Box& box : boxes_) all.push_back(&box);
    check(std::move(all), 0);
  }

 private:
  /// `boxes` are those that contain `index_` in the dimensions before `d`. They must cover the others.
  void check(std::vector<const Box*> boxes, int d) {
    if (boxes.empty()) fail_missing(d);
    if (boxes.size() == 1 && spans(*boxes[0], d)) return;
    if (d == shape_.ndim()) fail_overlap(boxes);
    std::sort(boxes.begin(), boxes.end(),
              [d](const Box* a, const Box* b) { return a->start[d] < b->start[d]; });
    std::vector<const Box*> active;
    size_t next = 0;
    for (int64_t at = 0; at < shape_[d];) {
      while (next < boxes.size() && boxes[next]->start[d] == at) active.push_back(boxes[next++]);
      // Up to the next start or end of a box, all indices are in the same boxes.
      int64_t end = next < boxes.size() ? boxes[next]->start[d] : shape_[d];
      for (const Box* box : active) end = std::min(end, box->end[d]);
      index_[d] = at;
      check(active, d + 1);
      std::erase_if(active, [&](const Box* box) { return box->end[d] == end; });
      at = end;
    }
  }

  bool spans(const Box& box, int d) const {
    for (; d < shape_.ndim(); ++d)
      if (box.start[d] != 0 || box.end[d] != shape_[d]) return false;
    return true;
  }

  /// The first element of the tensor with `index_` in the first `d` dimensions.
  int64_t element(int d) const {
    const Strides strides = contiguous_strides(shape_);
    int64_t position = 0;
    for (int i = 0; i < d; ++i) position += index_[i] * strides[i];
    return position;
  }
  [[noreturn]] void fail_missing(int d) const {
    throw CheckpointError(text(where_, ": expected all ", shape_.numel(), " elements of ", shape_,
                               ", element ", element(d), " is in no file"));
  }
  [[noreturn]] void fail_overlap(const std::vector<const Box*>& boxes) const {
    const auto [first, last] = std::minmax(boxes[0]->file, boxes[1]->file);
    throw CheckpointError(text(where_, ": element ", element(shape_.ndim()), " of ", shape_, " is in both ",
                               files_[first].name, " and ", files_[last].name));
  }

  const Shape& shape_;
  const std::vector<FileRecord>& files_;
  std::string where_;
  std::vector<Box> boxes_;
  Shape index_;  // the current index, in the dimensions before the one being checked
};

}  // namespace

StoredTensors assemble_tensors(const std::vector<FileRecord>& files, const std::string& where) {
  StoredTensors tensors;
  for (size_t file = 0; file < files.size(); ++file) {
    for (const Chunk& chunk : files[file].chunks) {
      StoredTensor& tensor = tensors[chunk.tensor];
      if (tensor.chunks.empty()) {
        tensor.dtype = chunk.dtype;
        tensor.shape = chunk.shape;
      }
      require<CheckpointError>(tensor.dtype == chunk.dtype && tensor.shape == chunk.shape, where,
                               ": tensor '", chunk.tensor, "': ", tensor.shape, " ", tensor.dtype,
                               " in one file, ", chunk.shape, " ", chunk.dtype, " in ", files[file].name);
      tensor.chunks.push_back({file, &chunk});
    }
  }
  for (const auto& [id, tensor] : tensors)
    CoverageCheck(tensor, files, text(where, ": tensor '", id, "'")).require_exact_cover();
  return tensors;
}

}  // namespace tessera::dist
