// Bags of a table's rows. Threads share the bags, and each adds the rows of a bag in the order of its ids, so
// that sums do not depend on the number of threads.
#include "tensor/cpu/indexing/embedding_bag.h"

#include <algorithm>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/cpu/loops/index_values.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 8192;

/// Calls body(bag, first id, end) for every bag.
template <class Body>
void for_each_bag(const Tensor& ids, const Tensor& bounds, int64_t width, const Body& body) {
  const int64_t bags = bounds.numel() - 1, per_bag = 1 + ids.numel() / std::max<int64_t>(bags, 1);
  const int64_t* bound = bounds.data<int64_t>();
  parallel_for(bags, 1 + grain_elements / (per_bag * width + 1), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) body(b, bound[b], bound[b + 1]);
  });
}

template <class T>
void sum_bags(const Tensor& ids, const Tensor& weight, const Tensor& bounds, const Tensor& factors,
              const Tensor& out) {
  using A = accumulator_of<T>;
  const IndexValues id(ids);
  const int64_t width = weight.size(1);
  const T *table = weight.data<T>(), *factor = factors.defined() ? factors.data<T>() : nullptr;
  T* const results = out.data<T>();
  const Scratch<A> sums(bounds.numel() * width);
  for_each_bag(ids, bounds, width, [&](int64_t bag, int64_t first, int64_t end) {
    A* const sum = sums.get() + bag * width;
    std::fill_n(sum, width, A(0));
    for (int64_t n = first; n < end; ++n) {
      const T* row = table + id[n] * width;
      const A scale = factor ? widen<A>(factor[n]) : A(1);
      TESSERA_INDEPENDENT_ITERATIONS
      for (int64_t c = 0; c < width; ++c) sum[c] += scale * widen<A>(row[c]);
    }
    narrow_contiguous(sum, width, results + bag * width);
  });
}

template <class T>
void max_rows_of_bags(const Tensor& ids, const Tensor& weight, const Tensor& bounds, const Tensor& rows) {
  using A = accumulator_of<T>;
  const IndexValues id(ids);
  const int64_t width = weight.size(1), none = weight.size(0);
  const T* table = weight.data<T>();
  for_each_bag(ids, bounds, width, [&](int64_t bag, int64_t first, int64_t end) {
    int64_t* const best = rows.data<int64_t>() + bag * width;
    std::fill_n(best, width, none);
    for (int64_t n = first; n < end; ++n) {
      const int64_t row = id[n];
      for (int64_t c = 0; c < width; ++c)
        if (best[c] == none || widen<A>(table[row * width + c]) > widen<A>(table[best[c] * width + c]))
          best[c] = row;
    }
  });
}

}  // namespace

void bag_bounds(const Tensor& offsets, int64_t ids, const Tensor& bounds) {
  const int64_t bags = offsets.numel();
  const int64_t* const given = offsets.data<int64_t>();
  int64_t* const bound = bounds.data<int64_t>();
  for (int64_t b = 0; b < bags; ++b) {
    bound[b] = given[b];
    require<ValueError>(b > 0 || bound[b] == 0, "embedding_bag: expected the first offset to be 0, got ",
                        bound[b]);
    require<ValueError>(b == 0 || bound[b] >= bound[b - 1], "embedding_bag: offset ", bound[b], " of bag ", b,
                        " is below ", b > 0 ? bound[b - 1] : 0, " of the bag before");
    require<ValueError>(bound[b] <= ids, "embedding_bag: offset ", bound[b], " of bag ", b,
                        " passes the number of ids, ", ids);
  }
  bound[bags] = ids;
}

void check_last_offset(const Tensor& offsets, int64_t ids) {
  const int64_t last = offsets.data<int64_t>()[offsets.numel() - 1];
  require<ValueError>(last == ids, "embedding_bag: the last offset is ", last,
                      ", expected the number of ids, ", ids);
}

void bag_of_each_id(const Tensor& bounds, const Tensor& bags) {
  const int64_t* const bound = bounds.data<int64_t>();
  int64_t* const bag = bags.data<int64_t>();
  for (int64_t b = 0; b + 1 < bounds.numel(); ++b) std::fill(bag + bound[b], bag + bound[b + 1], b);
}

void embedding_bag(const Tensor& ids, const Tensor& weight, const Tensor& bounds, const Tensor& factors,
                   const Tensor& out) {
  with_floating(weight.dtype(), [&]<class T>(TypeTag<T>) { sum_bags<T>(ids, weight, bounds, factors, out); });
}

void embedding_bag_max_rows(const Tensor& ids, const Tensor& weight, const Tensor& bounds,
                            const Tensor& rows) {
  with_floating(weight.dtype(), [&]<class T>(TypeTag<T>) { max_rows_of_bags<T>(ids, weight, bounds, rows); });
}

}  // namespace tessera::kernels::cpu
