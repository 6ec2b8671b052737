// Attention's backward, in blocks of keys by blocks of queries. The weights are recomputed from the
// log-sum-exp: five products where the forward has two. A block of keys keeps its gradients in the cache for
// all queries that attend to it, of all heads of q that share it, in their order; the queries' gradients are
// added up block by block. Threads share the heads of k and v; within one the order is fixed. Where there are
// few heads, threads share the blocks of keys: the queries' gradients from each block go to memory of its own
// and are added up in the same order, so the bits are the same.

#include <vector>

#include "tensor/cpu/attention/attention_head_backward.h"
#include "tensor/cpu/attention/attention_shares.h"
#include "tensor/cpu/gemm/sharing/shared_work.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

/// The backward in which threads share blocks of keys, some blocks of all heads at a time.
template <class Products>
class BlockBackward {
 public:
  using Element = typename Products::Element;
  using Sum = typename Products::Sum;

  BlockBackward(const AttentionCall& call, const AttentionGradients& gradients, const AttentionExtents& e,
                int64_t threads)
      : call_(call),
        gradients_(gradients),
        e_(e),
        threads_(threads),
        blocks_(blocks_at_once(e)),
        parts_(blocks_ * e.batch * e.heads * e.queries * e.width),
        sums_(in_place ? 0 : e.batch * e.heads * e.queries * e.width) {}

  /// As many as have parts of 256 MiB.
  static int64_t blocks_at_once(const AttentionExtents& e) {
    const int64_t all = (e.keys + key_block - 1) / key_block;
    const int64_t bytes = e.batch * e.heads * e.queries * e.width * static_cast<int64_t>(sizeof(Sum));
    return std::clamp<int64_t>((int64_t{256} << 20) / bytes, 1, all);
  }

  void run() {
    parallel_for(e_.batch * e_.heads * e_.queries, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) std::fill_n(sum_row(i), e_.width, Sum(0));
    });
    for (int64_t j = 0; j < e_.keys; j += blocks_ * key_block) {
      compute(j);
      add(j);
    }
    if constexpr (!in_place)
      parallel_for(e_.batch * e_.heads * e_.queries, 64, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) narrow_contiguous(sum_row(i), e_.width, dq_row(i));
      });
  }

 private:
  static constexpr bool in_place = Sums<Element, Sum>::in_place;

  /// Row i of the queries of all heads.
  /// @{
  Element* dq_row(int64_t i) const {
    const int64_t head = i / e_.queries;
    return head_of<Element>(gradients_.dq, head / e_.heads, head % e_.heads).row(i % e_.queries);
  }
  Sum* sum_row(int64_t i) const {
    if constexpr (in_place)
      return dq_row(i);
    else
      return sums_.get() + i * e_.width;
  }
  /// What block `k` of those at once gives.
  Sum* part_row(int64_t k, int64_t i) const {
    return parts_.get() + (k * e_.batch * e_.heads * e_.queries + i) * e_.width;
  }
  /// @}

  int64_t blocks_from(int64_t j) const {
    return std::min(blocks_, (e_.keys - j + key_block - 1) / key_block);
  }

  void compute(int64_t j) {
    const int64_t heads = e_.batch * e_.key_heads, blocks = blocks_from(j);
    std::vector<int64_t> costs;
    for (int64_t i = 0; i < heads * blocks; ++i) {
      const int64_t b = i / blocks / e_.key_heads, key_head = i / blocks % e_.key_heads;
      int64_t cost = 1;
      for (int64_t g = 0; g < e_.group(); ++g) {
        const QueryRange seen =
            queries_of(VisibleKeys(call_, e_, b, key_head * e_.group() + g), e_, j + i % blocks * key_block);
        cost += seen.end - seen.first;
      }
      costs.push_back(cost);
    }
    const auto jobs = deal_by_cost(costs, threads_);
    SharedWork(std::ssize(jobs))
        .for_each([&](int64_t owner) { return std::ssize(jobs[static_cast<size_t>(owner)]); },
                  [&] {
                    return [&, head = HeadBackward<Products>(call_, gradients_, e_)](int64_t owner,
                                                                                     int64_t n) mutable {
                      const int64_t i = jobs[static_cast<size_t>(owner)][static_cast<size_t>(n)];
                      const int64_t b = i / blocks / e_.key_heads, key_head = i / blocks % e_.key_heads,
                                    k = i % blocks;
                      head.run_block(b, key_head, j + k * key_block,
                                     part_row(k, (b * e_.heads + key_head * e_.group()) * e_.queries));
                    };
                  });
  }

  /// Adds the parts to the sums, in the order of the blocks.
  void add(int64_t j) {
    const int64_t blocks = blocks_from(j);
    parallel_for(e_.batch * e_.heads * e_.queries, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const int64_t head = i / e_.queries, last = std::min(end, (head + 1) * e_.queries);
        const VisibleKeys visible(call_, e_, head / e_.heads, head % e_.heads);
        for (int64_t k = 0; k < blocks; ++k) {
          const QueryRange seen = queries_of(visible, e_, j + k * key_block);
          const int64_t before = head * e_.queries;
          for (int64_t row = std::max(i, before + seen.first); row < std::min(last, before + seen.end);
               ++row) {
            const Sum* const part = part_row(k, row);
            Sum* const sum = sum_row(row);
            for (int64_t c = 0; c < e_.width; ++c) sum[c] += part[c];
          }
        }
        i = last;
      }
    });
  }

  const AttentionCall& call_;
  const AttentionGradients& gradients_;
  const AttentionExtents& e_;
  int64_t threads_, blocks_;
  Scratch<Sum> parts_;  // (blocks at once, batch, heads, queries, width)
  Scratch<Sum> sums_;   // (batch, heads, queries, width), where dq is narrower
};

template <class Products>
void backward(const AttentionCall& call, const AttentionGradients& gradients) {
  const AttentionExtents e(call);
  const int64_t heads = e.batch * e.key_heads;
  const int64_t threads = attention_threads(e.batch * e.heads * e.queries * e.keys, e.width, num_threads());
  // One block of all heads at once would keep no more threads busy than the heads do.
  if (!deals_evenly(heads, threads) && BlockBackward<Products>::blocks_at_once(e) > 1)
    return BlockBackward<Products>(call, gradients, e, threads).run();
  SharedWork(threads_in_use(heads, threads)).for_each_item(heads, [&] {
    return [&, head = HeadBackward<Products>(call, gradients, e)](int64_t i) mutable {
      head.run(i / e.key_heads, i % e.key_heads);
    };
  });
}

}  // namespace

void attention_backward(const AttentionCall& call, const Tensor& dout, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv) {
  const AttentionGradients gradients{dout, dq, dk, dv};
  switch (call.q.dtype()) {
    case f64:
      return backward<WideProducts<double>>(call, gradients);
    case bf16:
      return backward<Bf16Products>(call, gradients);
    default:
      return backward<WideProducts<float>>(call, gradients);
  }
}

}  // namespace tessera::kernels::cpu
