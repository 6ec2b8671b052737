#include "tensor/cpu/isa.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tensor/cpu/gemm/onednn/gemm_onednn.h"
#include "tensor/cpu/gemm/pairs/gemm_bf16_kernels.h"
#include "tensor/cpu/gemm/product_choice.h"
#include "tensor/cpu/transpose.h"
#include "tensor/error.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

namespace {

ProcessorFeatures haswell() {
  return {.avx2 = true, .fma = true, .f16c = true};
}
ProcessorFeatures skylake_server() {
  ProcessorFeatures features = haswell();
  features.avx512f = features.avx512bw = features.avx512dq = features.avx512vl = true;
  return features;
}
ProcessorFeatures zen_4() {
  ProcessorFeatures features = skylake_server();
  features.avx512_bf16 = true;
  return features;
}
ProcessorFeatures sapphire_rapids() {
  ProcessorFeatures features = zen_4();
  features.amx_tile = features.amx_bf16 = features.tile_state = true;
  return features;
}

}  // namespace

TEST_CASE("isa: the best set is the last one that is complete together with all sets before it") {
  CHECK(best_isa({}) == Isa::baseline);
  CHECK(best_isa(haswell()) == Isa::avx2);
  CHECK(best_isa(skylake_server()) == Isa::avx512);
  CHECK(best_isa(zen_4()) == Isa::avx512_bf16);
  CHECK(best_isa(sapphire_rapids()) == Isa::amx);
  for (bool ProcessorFeatures::*missing :
       {&ProcessorFeatures::avx2, &ProcessorFeatures::fma, &ProcessorFeatures::f16c}) {
    ProcessorFeatures features = sapphire_rapids();
    features.*missing = false;
    CHECK(best_isa(features) == Isa::baseline);
  }
  for (bool ProcessorFeatures::*missing : {&ProcessorFeatures::avx512f, &ProcessorFeatures::avx512bw,
                                           &ProcessorFeatures::avx512dq, &ProcessorFeatures::avx512vl}) {
    ProcessorFeatures features = sapphire_rapids();
    features.*missing = false;
    CHECK(best_isa(features) == Isa::avx2);
  }
  ProcessorFeatures tiles_alone = sapphire_rapids();
  tiles_alone.avx512_bf16 = false;
  CHECK(best_isa(tiles_alone) == Isa::avx512);
  for (bool ProcessorFeatures::*missing :
       {&ProcessorFeatures::amx_tile, &ProcessorFeatures::amx_bf16, &ProcessorFeatures::tile_state}) {
    ProcessorFeatures features = sapphire_rapids();
    features.*missing = false;
    CHECK(best_isa(features) == Isa::avx512_bf16);
  }
}

TEST_CASE("isa: TESSERA_ISA_MAX accepts the names of the sets, and an error lists them") {
  CHECK(parse_isa_limit("") == Isa::amx);
  for (const Isa isa : all_isas) CHECK(parse_isa_limit(name(isa)) == isa);
  for (const char* value : {"avx", "AVX2", "avx512bf16", "amx ", "none"})
    CHECK_THROWS_WITH_AS(parse_isa_limit(value),
                         ("TESSERA_ISA_MAX: expected baseline, avx2, avx512, avx512_bf16 or amx, got '" +
                          std::string(value) + "'")
                             .c_str(),
                         ConfigError);
}

TEST_CASE("isa: bf16 is multiplied by our kernels, on request by oneDNN, and nothing runs above the limit") {
  using enum Bf16Product;
  // The processor and oneDNN at the same set.
  for (const Isa isa : all_isas) {
    CHECK(choose_bf16_product(MatmulBackend::eigen, isa, isa) == through_f32);
    const bool pairs = isa >= Isa::avx512_bf16;
    for (const Isa onednn_isa : {Isa::baseline, isa, Isa::amx})
      CHECK(choose_bf16_product(MatmulBackend::automatic, isa, onednn_isa) ==
            (pairs ? Bf16Product::pairs : through_f32));
    CHECK(choose_bf16_product(MatmulBackend::onednn, isa, isa) == (pairs ? onednn : through_f32));
  }
  CHECK(choose_bf16_product(MatmulBackend::onednn, Isa::amx, Isa::avx512) == Bf16Product::pairs);
}

TEST_CASE("isa: f32 is multiplied by the backend that was set, else by the faster one that is built") {
  using enum F32Product;
  for (const Isa isa : all_isas)
    for (const F32Class product : {F32Class{1, false}, F32Class{768, false}, F32Class{768, true}}) {
      for (const bool library : {false, true}) {
        CHECK(choose_f32_product(MatmulBackend::eigen, Processor::other, isa, library, product) == eigen);
        CHECK(choose_f32_product(MatmulBackend::packed, Processor::other, isa, library, product) == packed);
      }
      CHECK(choose_f32_product(MatmulBackend::onednn, Processor::other, isa, true, product) == onednn);
      CHECK(choose_f32_product(MatmulBackend::automatic, Processor::other, isa, false, product) ==
            (product.rows == 1 ? eigen : packed));
    }
  CHECK(choose_f32_product(MatmulBackend::automatic, Processor::other, Isa::avx512, true, {768, false}) ==
        packed);
  CHECK(choose_f32_product(MatmulBackend::automatic, Processor::other, Isa::avx512, true, {64, false}) ==
        onednn);
  CHECK(choose_f32_product(MatmulBackend::automatic, Processor::other, Isa::amx, true, {768, true}) ==
        onednn);
  CHECK(choose_f32_product(MatmulBackend::automatic, Processor::other, Isa::baseline, true, {768, false}) ==
        onednn);
  // A processor's own line, and where it has none.
  CHECK(choose_f32_product(MatmulBackend::automatic, Processor::zen3, Isa::avx2, true, {768, true}) ==
        packed);
  CHECK(choose_f32_product(MatmulBackend::automatic, Processor::other, Isa::avx2, true, {768, true}) ==
        onednn);
  CHECK(choose_f32_product(MatmulBackend::automatic, Processor::zen3, Isa::baseline, true, {768, true}) ==
        onednn);
  // Bounds of few rows, with a in place and stored transposed.
  const auto on_intel = [](F32Class product) {
    return choose_f32_product(MatmulBackend::automatic, Processor::sapphire_rapids, Isa::amx, true, product);
  };
  CHECK(on_intel({31, false}) == onednn);
  CHECK(on_intel({32, false}) == packed);
  CHECK(on_intel({4096, false}) == packed);
  CHECK(on_intel({767, true}) == onednn);
  CHECK(on_intel({768, true}) == packed);
}

TEST_CASE("isa: the gradient of a linear layer of f(x) is ours where both products are, or where measured") {
  const auto is_ours = [](Processor processor, Isa isa, int64_t rows, int64_t out,
                          MatmulBackend backend = MatmulBackend::automatic) {
    return choose_activation_gradient(backend, processor, isa, true, rows, out);
  };
  CHECK(is_ours(Processor::sapphire_rapids, Isa::amx, 768, 128));  // although dy^T x alone is oneDNN's
  CHECK_FALSE(is_ours(Processor::sapphire_rapids, Isa::amx, 16, 768));
  CHECK_FALSE(is_ours(Processor::sapphire_rapids, Isa::avx2, 768, 768));  // the line of other processors
  CHECK(is_ours(Processor::zen3, Isa::avx2, 768, 128));
  CHECK_FALSE(is_ours(Processor::zen5, Isa::avx512, 768, 768));
  CHECK_FALSE(is_ours(Processor::other, Isa::avx512, 768, 768));
  CHECK(is_ours(Processor::other, Isa::baseline, 768, 768, MatmulBackend::packed));
  CHECK_FALSE(is_ours(Processor::zen3, Isa::avx2, 768, 768, MatmulBackend::onednn));
}

TEST_CASE("isa: designs by vendor, family and model") {
  CHECK(processor_of("AuthenticAMD", 0x19, 0x01) == Processor::zen3);
  CHECK(processor_of("AuthenticAMD", 0x19, 0x11) == Processor::zen4);
  CHECK(processor_of("AuthenticAMD", 0x19, 0xa1) == Processor::zen4);
  CHECK(processor_of("AuthenticAMD", 0x19, 0x90) == Processor::zen4);
  CHECK(processor_of("AuthenticAMD", 0x1a, 0x02) == Processor::zen5);
  CHECK(processor_of("AuthenticAMD", 0x1a, 0x50) == Processor::other);
  CHECK(processor_of("GenuineIntel", 6, 0x8f) == Processor::sapphire_rapids);
  CHECK(processor_of("GenuineIntel", 6, 0x6a) == Processor::other);
  CHECK(processor_of("AuthenticAMD", 6, 0x8f) == Processor::other);
  for (const Processor processor : all_processors) CHECK(name(processor) != "");
}

TEST_CASE("isa: the line of choices names what multiplies") {
  const std::string line = product_choices();
  CHECK(line.find("f32 ") == 0);
  CHECK(line.find("f32 " + f32_choices(false)) == 0);
  CHECK(line.find("; weight gradients " + f32_choices(true)) != std::string::npos);
  // Each bound of the rows is one at which the choice changes.
  for (const bool transposed : {false, true})
    for (int64_t rows = 2; rows < 3000; ++rows) {
      const bool changes = f32_product({rows, transposed}) != f32_product({rows - 1, transposed});
      const std::string bound = text(" below ", rows, " rows, ");
      CHECK((f32_choices(transposed).find(bound) != std::string::npos) == changes);
    }
  CHECK((line.find("bf16 through f32") != std::string::npos) == (bf16_product() == Bf16Product::through_f32));
  const IsaScope lowest(Isa::baseline);
  // oneDNN keeps its own set, which a scope does not lower.
  const bool has_ours = line.find("ours ") != std::string::npos;
  const bool is_lowest = processor_isa() == Isa::baseline || isa_limit() == Isa::baseline;
  CHECK((product_choices() != line || !has_ours || is_lowest));
}

TEST_CASE("isa: the set in use is within the processor's and TESSERA_ISA_MAX, oneDNN included") {
  CHECK(current_isa() <= processor_isa());
  CHECK(current_isa() <= isa_limit());
  CHECK(processor_isa() == best_isa(processor_features()));
  for (const Isa isa : all_isas) CHECK(isa_available(isa) == (isa <= current_isa()));
  CHECK(multiplies_bf16_pairs() == (current_isa() >= Isa::avx512_bf16));
  CHECK(onednn_serves() == onednn_built());
  if (onednn_built()) CHECK(onednn_isa() <= isa_limit());
  CHECK((bf16_product() == Bf16Product::through_f32) == (current_isa() < Isa::avx512_bf16));
}

TEST_CASE("isa: tests call the copy of a kernel that the set in use has") {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!isa_available(isa)) continue;
    const IsaScope scope(isa);
    const bool is_own =
        TESSERA_PER_ISA(transpose_f32) == (isa == Isa::avx2 ? &avx2::transpose_f32 : &avx512::transpose_f32);
    CHECK(is_own);
  }
}

TEST_CASE("isa: a scope lowers the set in use and restores the previous one") {
  const Isa before = current_isa();
  {
    const IsaScope lower(Isa::avx2);
    CHECK(current_isa() == std::min(before, Isa::avx2));
    CHECK_FALSE(multiplies_bf16_pairs());
    CHECK(bf16_product() == Bf16Product::through_f32);
    {
      const IsaScope lowest(Isa::baseline);
      CHECK(current_isa() == Isa::baseline);
      const IsaScope higher(Isa::amx);
      CHECK(current_isa() == Isa::baseline);
    }
    CHECK(current_isa() == std::min(before, Isa::avx2));
  }
  CHECK(current_isa() == before);
}
