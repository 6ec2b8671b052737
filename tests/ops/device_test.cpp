// The op table on a device other than the CPU, which TESSERA_TEST_DEVICE names ("cuda:sim"): results and
// gradients are the CPU's, to the bit for elementwise operations, which compute each element by the same
// functions.
#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

#include "tests/ops/compare.h"
#include "tests/ops/run_case.h"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Families with kernels for CUDA devices; of the others a row may say that there is none.
const std::set<std::string> complete_families = {"activation_function",
                                                 "arrangements",
                                                 "attention",
                                                 "binary",
                                                 "comparison",
                                                 "convolution",
                                                 "edges",
                                                 "einsum",
                                                 "embedding_bag",
                                                 "fused_convolution",
                                                 "gated",
                                                 "images",
                                                 "indexing",
                                                 "loss",
                                                 "losses",
                                                 "matmul",
                                                 "methods",
                                                 "movement",
                                                 "normalization",
                                                 "places",
                                                 "reduction",
                                                 "resampling",
                                                 "rotary",
                                                 "softmax",
                                                 "special_function",
                                                 "statistics",
                                                 "ternary",
                                                 "unary",
                                                 "weight_norm"};
/// But for these ops, which have none.
const std::set<std::string> absent_in_families = {"ctc_loss", "multilabel_margin_loss"};
/// Those of them that compute each element alone.
const std::set<std::string> elementwise_families = {"unary", "binary", "ternary", "comparison"};

Device test_device;

Tensor on_test_device(const Tensor& value) {
  return value.to(test_device);
}
Tensor strided_on_test_device(const Tensor& value) {
  return strided_copy(value).to(test_device);
}

std::string compare_all(const char* what, const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                        double tolerance) {
  if (got.size() != expected.size()) return text("got ", got.size(), " tensors, expected ", expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].defined()) continue;
    if (!got[i].device().is_cuda()) return text(what, " ", i, " is on ", got[i].device());
    const std::string problem = difference(got[i].to(cpu()), expected[i], tolerance);
    if (!problem.empty()) return text(what, " ", i, ": ", problem);
  }
  return "";
}

/// Results and gradients of a case in `dtype` on the device, against those on the CPU.
std::string check_case(const OpRow& row, const OpCase& c, DType dtype, Tensor (*layout)(const Tensor&)) {
  const CaseInputs here = case_inputs(c, dtype), there = case_inputs(c, dtype, layout);
  const Results expected = row.call(here), got = row.call(there);
  const double tolerance = elementwise_families.contains(row.family) ? 0.0 : tolerance_of(row, dtype);
  const std::string problem = compare_all("result", values_of(got), values_of(expected), tolerance);
  if (!problem.empty() || c.grad_outputs.empty()) return problem;
  return compare_all("gradient", gradients_of(there, got, c), gradients_of(here, expected, c),
                     tolerance_of(row, dtype));
}

}  // namespace

TEST_CASE("op table: a device gives the CPU's results and gradients") {
  const char* name = std::getenv("TESSERA_TEST_DEVICE");
  if (name == nullptr) {
    MESSAGE("skipped: TESSERA_TEST_DEVICE names no device");
    return;
  }
  test_device = parse_device(name);
  for (const OpRow& row : op_table())
    if (row.call) cases_of(row);  // some rows keep what they are made of
  const MemoryCount before = current_account()->total();
  std::set<std::string> done, absent;
  for_each_case([&](const OpRow& row, const OpCase& c) -> std::string {
    if (c.inputs.empty()) return "";  // computed where the call says
    for (const DType dtype : {f64, f32, bf16, f16}) {
      const bool is_narrow = dtype != f64;
      if (is_narrow && (!has_floating_input(c) || !representable(c, dtype) ||
                        std::find(row.narrow.begin(), row.narrow.end(), dtype) == row.narrow.end()))
        continue;
      for (const auto layout : {&on_test_device, &strided_on_test_device}) {
        try {
          const std::string problem = check_case(row, c, dtype, layout);
          if (!problem.empty())
            return text(dtype, layout == &on_test_device ? "" : ", strided", ": ", problem);
        } catch (const Error& error) {
          // No kernel, or values that the host reads, or a call that makes operands on the CPU.
          const bool is_absence =
              dynamic_cast<const NotBuiltError*>(&error) || dynamic_cast<const DeviceError*>(&error);
          if (!is_absence) throw;
          if (complete_families.contains(row.family) && !absent_in_families.contains(row.name))
            return error.what();
          absent.insert(row.name);
          return "";
        }
      }
    }
    done.insert(row.name);
    return "";
  });
  synchronize(test_device);
  CHECK(current_account()->total().current == before.current);
  std::string list;
  for (const std::string& op : absent) done.erase(op);
  for (const std::string& op : absent) list = text(list, list.empty() ? "" : " ", op);
  CHECK(done.size() >= 300);
  MESSAGE(done.size(), " ops run on ", std::string(name), "; without a kernel: ", absent.size(), ": ", list);
}
