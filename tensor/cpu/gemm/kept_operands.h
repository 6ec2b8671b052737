#pragma once  // internal

#include <compare>
#include <cstdint>
#include <map>

#include "tensor/function_ref.h"
#include "tensor/tensor.h"

/// Weights that stay packed from one product to the next, while their values stay as they are
/// (`PackedWeightScope`, tensor/packed_weight_scope.h). With few rows packing is a good part of a product
/// (README.md in this folder has the figures).
namespace tessera::kernels::cpu {

/// How a second operand is packed: for f32 (`PackedOperand`), for bf16 (`PairPanels`).
enum class PackedForm : uint8_t { f32_panels, bf16_pairs };

/// A second operand (k, n) of a product, with rows, or, `transposed`, columns `leading` elements apart, and
/// its packed form.
struct PackedKey {
  const void* data;
  int64_t k, n, leading;
  bool transposed;
  PackedForm form;
  auto operator<=>(const PackedKey&) const = default;
};

/// Packed second operands of one thread's products.
class KeptOperands {
 public:
  /// The most rows of a product for which an operand is kept: with more, packing takes a few hundredths of
  /// the time.
  static constexpr int64_t most_rows(PackedForm form) { return form == PackedForm::bf16_pairs ? 1024 : 256; }

  /// Writes the packed form to memory of 64-byte alignment.
  using Pack = FunctionRef<void(void* to)>;

  /// The packed form of `key`, which lies in `values`, for a product of `rows` rows: `bytes` that `pack`
  /// wrote, now or before. Null where it does not pay: at the first product of these values, unless the
  /// values before them served several; and where memory does not suffice. The form holds until the next
  /// call.
  void* find_or_pack(const Tensor& values, const PackedKey& key, int64_t rows, int64_t bytes,
                     const Pack& pack);

  /// Takes all values as new ones, as those of another version.
  void renew();

  /// Operands that were packed so far.
  int64_t packed() const { return packed_; }
  /// Bytes that packed operands occupy.
  int64_t bytes() const;

 private:
  /// What is known of an operand. Its counter is held, so its address stays that of this tensor.
  struct Entry {
    intrusive_ptr<VersionCounter> counter = {};
    uint64_t version = 0;
    int64_t products = 0;      ///< of these values
    bool comes_again = false;  ///< whether the values before served several products
    bool is_packed = false;
    Tensor memory = {};

    /// The values are new, or may be. Where the last ones served one product, the memory is given back.
    void begin_values();
    /// Makes room for `bytes`; returns whether memory suffices.
    bool reserve(int64_t bytes);
  };

  /// Drops the entries of tensors that are gone.
  void drop_unused();

  std::map<PackedKey, Entry> entries_;
  size_t drop_at_ = 32;  // entries
  int64_t packed_ = 0;
};

/// That of this thread's innermost scope; null outside.
inline thread_local KeptOperands* kept_operands = nullptr;

}  // namespace tessera::kernels::cpu
