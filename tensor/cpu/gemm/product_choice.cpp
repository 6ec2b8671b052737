#include "tensor/cpu/gemm/product_choice.h"

#include <algorithm>

#include "tensor/cpu/gemm/onednn/gemm_onednn.h"
#include "tensor/error.h"

namespace tessera::kernels::cpu {
namespace {

/// The faster of both kernels.
struct Measured {
  Processor processor;
  Isa isa;
  F32Product in_place, transposed;  ///< products of many rows, by the first operand
  /// Fewer rows are oneDNN's: with a in place, and stored transposed (rows of a weight's gradient).
  int64_t library_below = 128, transposed_library_below = 128;
  /// Whether the gradient of a linear layer of f(x) is faster with both of its products ours.
  bool activation_gradient = false;
};

// Lines are printed by tools/bench/bench_product_choice. A processor without a line takes that of `other`,
// and one without bounds of few rows was not measured with these.
constexpr F32Product packed = F32Product::packed, library = F32Product::onednn;
constexpr Measured table[] = {
    {Processor::other, Isa::baseline, library, library},
    {Processor::other, Isa::avx2, packed, library},
    {Processor::other, Isa::avx512, packed, library},
    {Processor::zen3, Isa::avx2, packed, packed},
    {Processor::zen5, Isa::avx2, packed, packed},
    {Processor::zen5, Isa::avx512, packed, library},
    {Processor::sapphire_rapids, Isa::avx512, packed, packed, 32, 768, true},
};

const Measured* line_of(Processor processor, Isa isa) {
  for (const Processor wanted : {processor, Processor::other})
    for (const Measured& line : table)
      if (line.processor == wanted && line.isa == std::min(isa, Isa::avx512)) return &line;
  return nullptr;
}

F32Product faster_f32_product(Processor processor, Isa isa, F32Class product) {
  const Measured* const line = line_of(processor, isa);
  if (!line) return library;
  if (product.a_transposed) return product.rows < line->transposed_library_below ? library : line->transposed;
  return product.rows < line->library_below ? library : line->in_place;
}

bool measured_activation_gradient(Processor processor, Isa isa) {
  const Measured* const line = line_of(processor, isa);
  return line && line->activation_gradient;
}

std::string name_of(F32Product product) {
  switch (product) {
    case F32Product::packed:
      return text("ours ", name(std::min(current_isa(), Isa::avx512)));
    case F32Product::onednn:
      return text("oneDNN ", name(onednn_isa()));
    default:
      return text("Eigen ", name(std::min(current_isa(), Isa::avx512)));
  }
}

std::string name_of(Bf16Product product) {
  switch (product) {
    case Bf16Product::onednn:
      return text("oneDNN ", name(onednn_isa()));
    case Bf16Product::pairs:
      return text("ours ", name(current_isa()));
    default:
      return "through f32";
  }
}

}  // namespace

F32Product choose_f32_product(MatmulBackend backend, Processor processor, Isa isa, bool onednn,
                              F32Class product) {
  if (backend == MatmulBackend::eigen) return F32Product::eigen;
  if (backend == MatmulBackend::packed) return F32Product::packed;
  // Few rows do not pay for packing the second operand.
  if (!onednn) return product.rows < 16 ? F32Product::eigen : F32Product::packed;
  if (backend == MatmulBackend::onednn) return F32Product::onednn;
  return faster_f32_product(processor, isa, product);
}

F32Product f32_product(F32Class product) {
  return choose_f32_product(chosen_backend.load(std::memory_order_relaxed), this_processor(), current_isa(),
                            onednn_serves(), product);
}

bool choose_activation_gradient(MatmulBackend backend, Processor processor, Isa isa, bool onednn,
                                int64_t rows, int64_t out) {
  const auto is_ours = [&](const F32Class& product) {
    return choose_f32_product(backend, processor, isa, onednn, product) == F32Product::packed;
  };
  return is_ours({rows, false}) && (is_ours({out, true}) || measured_activation_gradient(processor, isa));
}

bool f32_activation_gradient_is_ours(int64_t rows, int64_t out) {
  return choose_activation_gradient(chosen_backend.load(std::memory_order_relaxed), this_processor(),
                                    current_isa(), onednn_serves(), rows, out);
}

Bf16Product choose_bf16_product(MatmulBackend backend, Isa isa, Isa onednn) {
  if (backend == MatmulBackend::eigen) return Bf16Product::through_f32;
  if (backend == MatmulBackend::onednn && std::min(isa, onednn) >= Isa::avx512_bf16)
    return Bf16Product::onednn;
  return isa >= Isa::avx512_bf16 ? Bf16Product::pairs : Bf16Product::through_f32;
}

Bf16Product bf16_product() {
  return choose_bf16_product(chosen_backend.load(std::memory_order_relaxed), current_isa(),
                             onednn_serves() ? onednn_isa() : Isa::baseline);
}

std::string f32_choices(bool a_transposed) {
  constexpr int64_t most_rows = 1 << 14;  // above those at which a line changes
  std::string line;
  F32Product last = f32_product({1, a_transposed});
  for (int64_t rows = 2; rows <= most_rows; ++rows) {
    const F32Product product = f32_product({rows, a_transposed});
    if (product == last) continue;
    line += text(name_of(last), " below ", rows, " rows, ");
    last = product;
  }
  return line + name_of(last);
}

std::string bf16_choice() {
  return name_of(bf16_product());
}

std::string product_choices() {
  return text("f32 ", f32_choices(false), "; weight gradients ", f32_choices(true), "; bf16 ", bf16_choice());
}

}  // namespace tessera::kernels::cpu
