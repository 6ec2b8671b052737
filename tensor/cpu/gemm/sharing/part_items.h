#pragma once  // internal

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensor/cpu/gemm/sharing/shared_work.h"
#include "tensor/cpu/gemm/sharing/thread_cut.h"

namespace tessera::kernels::cpu {

/// The parts of a product that threads begin with (`ThreadCut`), in items that any of them can take. A block
/// of c is cut into columns that are packed at a time, and these into bands of rows; a thread goes down the
/// bands of one column of items after another, so it packs its columns once. A thread that is done with its
/// part takes items of others', and packs their columns for itself.
class PartItems {
 public:
  /// The columns and rows of an item.
  struct Size {
    int64_t columns, rows;
  };

  /// size_of(block) gives the items' size in a block of c (m, n).
  template <class SizeOf>
  PartItems(int64_t m, int64_t n, const ThreadCut& cut, const SizeOf& size_of)
      : parts_(static_cast<size_t>(cut.threads)) {
    for (int64_t t = 0; t < cut.threads; ++t)
      for (const ProductBlock& block : cut.pieces(m, n, t))
        if (!block.empty()) parts_[static_cast<size_t>(t)].emplace_back(block, size_of(block));
  }

  /// begin() gives each thread its worker, and worker(item) is called once for each item.
  template <class Begin>
  void for_each(const Begin& begin) const {
    SharedWork(static_cast<int64_t>(parts_.size()))
        .for_each([&](int64_t part) { return count(part); },
                  [&] {
                    return [&, worker = begin()](int64_t part, int64_t i) mutable { worker(item(part, i)); };
                  });
  }
  /// The columns of the widest item.
  int64_t widest() const {
    int64_t columns = 0;
    for (const std::vector<Piece>& pieces : parts_)
      for (const Piece& piece : pieces) columns = std::max(columns, piece.size.columns);
    return columns;
  }
  int64_t count(int64_t part) const {
    int64_t items = 0;
    for (const Piece& piece : parts_[static_cast<size_t>(part)]) items += piece.across * piece.down;
    return items;
  }

 private:
  struct Piece {
    ProductBlock block;
    Size size;
    int64_t across, down;

    Piece(const ProductBlock& all, const Size& item)
        : block(all),
          size(item),
          across((all.columns + item.columns - 1) / item.columns),
          down((all.rows + item.rows - 1) / item.rows) {}

    ProductBlock item(int64_t i) const {
      const int64_t row = i % down * size.rows, column = i / down * size.columns;
      return {block.row + row, std::min(size.rows, block.rows - row), block.column + column,
              std::min(size.columns, block.columns - column)};
    }
  };

  ProductBlock item(int64_t part, int64_t i) const {
    const std::vector<Piece>& pieces = parts_[static_cast<size_t>(part)];
    size_t p = 0;
    for (; i >= pieces[p].across * pieces[p].down; ++p) i -= pieces[p].across * pieces[p].down;
    return pieces[p].item(i);
  }

  std::vector<std::vector<Piece>> parts_;
};

}  // namespace tessera::kernels::cpu
