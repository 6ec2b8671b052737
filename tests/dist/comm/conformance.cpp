#include "tests/dist/comm/conformance.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "tensor/types/accumulator.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::dist::conformance {

void expect(bool condition, Communicator& communicator, const std::string& what) {
  if (!condition) throw std::runtime_error(text("rank ", communicator.rank(), ": ", what));
}

namespace {

constexpr DType all_dtypes[] = {f64, f32, bf16, f16, i64, i32, u8, boolean};
constexpr Reduction all_reductions[] = {Reduction::sum, Reduction::avg, Reduction::min, Reduction::max};
constexpr int64_t sizes[] = {0, 1, 7, 64, 129, 1000, 4097, 100003};

/// Element i of `rank`'s input: small integers, which all dtypes represent exactly. f32 and f64 get
/// fractions, whose sums are rounded.
double value_at(DType dtype, int rank, int64_t i) {
  if (dtype == boolean) return static_cast<double>((i + rank) % 3 == 0);
  const double integer = static_cast<double>((i * 7 + rank * 3) % 11 + 1);
  return dtype == f32 || dtype == f64 ? integer / 10 : integer;
}

/// Copies to the communicator's device.
Tensor on_device(const Communicator& c, const Tensor& x) {
  return x.to(c.device());
}
Tensor zeros(const Communicator& c, int64_t n, DType dtype = f32) {
  return Tensor::zeros({n}, dtype, c.device());
}

Tensor input_of(const Communicator& c, DType dtype, int rank, int64_t n, int64_t from = 0) {
  const Tensor tensor = Tensor::empty({n}, dtype);
  with_any(dtype, [&]<class T>(TypeTag<T>) {
    T* x = tensor.data<T>();
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>)
        x[i] = T(static_cast<float>(value_at(dtype, rank, from + i)));
      else
        x[i] = static_cast<T>(value_at(dtype, rank, from + i));
    }
  });
  return on_device(c, tensor);
}

/// The reduction of element i over ranks 0, 1, ..., in this order, as the interface specifies.
template <class T>
T reduced(DType dtype, Reduction reduction, int ranks, int64_t i) {
  using A = accumulator_of<T>;
  const auto stored = [&](int rank) { return static_cast<A>(value_at(dtype, rank, i)); };
  A a = stored(0);
  for (int r = 1; r < ranks; ++r) {
    const A b = stored(r);
    if (reduction == Reduction::min)
      a = std::min(a, b);
    else if (reduction == Reduction::max)
      a = std::max(a, b);
    else
      a += b;
  }
  if (reduction == Reduction::avg) a /= static_cast<A>(ranks);
  if constexpr (std::is_same_v<T, bool>)
    return a != 0;
  else
    return static_cast<T>(a);
}

/// The relative difference of a sum in another order: GPUs have an order of their own.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-14;
    case DType::f32:
      return 2e-6;
    case DType::bf16:
      return 2e-2;
    case DType::f16:
      return 2e-3;
    default:
      return 0;
  }
}

bool is_reduced(const Communicator& c, const Tensor& reduced_there, Reduction reduction, int64_t from = 0) {
  const Tensor result = reduced_there.to(cpu());
  const double tolerance = c.device().is_cpu() ? 0 : tolerance_of(result.dtype());
  return with_any(result.dtype(), [&]<class T>(TypeTag<T>) {
    const T* x = result.data<T>();
    for (int64_t i = 0; i < result.numel(); ++i) {
      const T expected = reduced<T>(result.dtype(), reduction, c.size(), from + i);
      if (std::memcmp(&x[i], &expected, sizeof expected) == 0) continue;
      using A = accumulator_of<T>;
      const auto value = static_cast<double>(static_cast<A>(x[i]));
      const auto correct = static_cast<double>(static_cast<A>(expected));
      if (!(std::abs(value - correct) <= tolerance * std::abs(correct))) return false;
    }
    return true;
  });
}

bool same_bytes(const Tensor& a_there, const Tensor& b_there) {
  const Tensor a = a_there.to(cpu()), b = b_there.to(cpu());
  return a.nbytes() == b.nbytes() &&
         (a.nbytes() == 0 || std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.nbytes())) == 0);
}

std::string of(DType dtype, int64_t n) {
  return text(" of ", n, " ", dtype);
}

void all_reduces(Communicator& c) {
  for (const DType dtype : all_dtypes)
    for (const Reduction reduction : all_reductions)
      for (const int64_t n : sizes) {
        const Tensor x = input_of(c, dtype, c.rank(), n);
        c.all_reduce(x, reduction).wait();
        expect(is_reduced(c, x, reduction), c, text("all_reduce ", name_of(reduction), of(dtype, n)));
      }
}

void reduce_scatters(Communicator& c) {
  for (const DType dtype : all_dtypes)
    for (const Reduction reduction : all_reductions)
      for (const int64_t n : sizes) {
        const Tensor x = input_of(c, dtype, c.rank(), n * c.size());
        const Tensor y = zeros(c, n, dtype);
        c.reduce_scatter(y, x, reduction).wait();
        expect(is_reduced(c, y, reduction, c.rank() * n), c,
               text("reduce_scatter ", name_of(reduction), of(dtype, n)));
        expect(same_bytes(x, input_of(c, dtype, c.rank(), n * c.size())), c,
               "reduce_scatter changed its input");
        const Tensor own = x.narrow(0, c.rank() * n, n);
        c.reduce_scatter(own, x, reduction).wait();
        expect(same_bytes(own, y), c, "reduce_scatter into its own shard" + of(dtype, n));
      }
}

Tensor gathered(const Communicator& c, DType dtype, int64_t n) {
  const Tensor all = zeros(c, c.size() * n, dtype);
  for (int r = 0; r < c.size(); ++r) all.narrow(0, r * n, n).copy_from(input_of(c, dtype, r, n));
  return all;
}

void all_gathers(Communicator& c) {
  for (const DType dtype : all_dtypes)
    for (const int64_t n : sizes) {
      const Tensor expected = gathered(c, dtype, n);
      const Tensor y = zeros(c, c.size() * n, dtype);
      c.all_gather(y, input_of(c, dtype, c.rank(), n)).wait();
      expect(same_bytes(y, expected), c, "all_gather" + of(dtype, n));
      const Tensor z = zeros(c, c.size() * n, dtype);
      const Tensor own = z.narrow(0, c.rank() * n, n);
      own.copy_from(input_of(c, dtype, c.rank(), n));
      c.all_gather(z, own).wait();
      expect(same_bytes(z, expected), c, "all_gather in place" + of(dtype, n));
    }
}

/// Ranges that lie apart, by more than one rank's range or by other gaps than on the other ranks.
void separate_shards(Communicator& c) {
  if (c.device().is_cuda()) return;
  for (const DType dtype : {f32, bf16, u8})
    for (const int64_t n : sizes) {
      const int64_t first = c.rank() + 3, stride = n + first + 5 * c.rank();
      const auto rows = [&](const Tensor& all) { return all.view({c.size(), stride}).narrow(1, first, n); };
      const Tensor all = c.empty({c.size() * stride}, dtype);
      all.zero();
      rows(all).select(0, c.rank()).copy_from(input_of(c, dtype, c.rank(), n));
      c.all_gather(rows(all), rows(all).select(0, c.rank())).wait();
      const Tensor expected = zeros(c, c.size() * stride, dtype);
      rows(expected).copy_from(gathered(c, dtype, n).view({c.size(), n}));
      expect(same_bytes(all, expected), c, "all_gather to separate shards" + of(dtype, n));

      rows(all).copy_from(input_of(c, dtype, c.rank(), n * c.size()).view({c.size(), n}));
      const Tensor before = all.clone(), y = zeros(c, n, dtype);
      c.reduce_scatter(y, rows(all), Reduction::avg).wait();
      expect(is_reduced(c, y, Reduction::avg, c.rank() * n), c,
             "reduce_scatter of separate shards" + of(dtype, n));
      expect(same_bytes(all, before), c, "reduce_scatter changed its input");
      c.reduce_scatter(rows(all).select(0, c.rank()), rows(all), Reduction::avg).wait();
      rows(before).select(0, c.rank()).copy_from(y);
      expect(same_bytes(all, before), c, "reduce_scatter in place of separate shards" + of(dtype, n));

      const Tensor outside = Tensor::zeros({c.size() * stride}, dtype);  // not in memory of the transport
      rows(outside).copy_from(input_of(c, dtype, c.rank(), n * c.size()).view({c.size(), n}));
      const Tensor z = zeros(c, n, dtype);
      c.reduce_scatter(z, rows(outside), Reduction::avg).wait();
      expect(same_bytes(z, y), c, "reduce_scatter of separate shards outside" + of(dtype, n));
    }
}

void broadcasts(Communicator& c) {
  for (const DType dtype : all_dtypes)
    for (const int64_t n : sizes)
      for (int root = 0; root < c.size(); ++root) {
        const Tensor x = input_of(c, dtype, c.rank(), n);
        c.broadcast(x, root).wait();
        expect(same_bytes(x, input_of(c, dtype, root, n)), c, text("broadcast from ", root, of(dtype, n)));
      }
}

void all_to_alls(Communicator& c) {
  for (const DType dtype : all_dtypes)
    for (const int64_t n : sizes) {
      const Tensor x = input_of(c, dtype, c.rank(), n * c.size()), y = zeros(c, n * c.size(), dtype);
      c.all_to_all(y, x).wait();
      for (int r = 0; r < c.size(); ++r)
        expect(same_bytes(y.narrow(0, r * n, n), input_of(c, dtype, r, n, c.rank() * n)), c,
               "all_to_all" + of(dtype, n));
    }
}

/// Rank r sends (r + 1) * (i + 2) % 5 * 200 elements to rank i.
void uneven_all_to_all(Communicator& c) {
  const auto count = [](int from, int to) -> int64_t { return (from + 1) * (to + 2) % 5 * 200; };
  std::vector<int64_t> sent, received;
  int64_t total_sent = 0, total_received = 0;
  for (int r = 0; r < c.size(); ++r) {
    total_sent += sent.emplace_back(count(c.rank(), r));
    total_received += received.emplace_back(count(r, c.rank()));
  }
  const Tensor x = input_of(c, f32, c.rank(), total_sent), y = zeros(c, total_received, f32);
  c.all_to_all(y, received, x, sent).wait();
  int64_t place = 0;
  for (int from = 0; from < c.size(); ++from) {
    int64_t offset = 0;
    for (int to = 0; to < c.rank(); ++to) offset += count(from, to);
    const int64_t n = count(from, c.rank());
    expect(same_bytes(y.narrow(0, place, n), input_of(c, f32, from, n, offset)), c,
           text("uneven all_to_all from ", from));
    place += n;
  }
}

void messages(Communicator& c) {
  const int to = (c.rank() + 1) % c.size(), from = (c.rank() + c.size() - 1) % c.size();
  if (c.size() == 1) return;
  for (const DType dtype : all_dtypes)
    for (const int64_t n : sizes) {
      const Tensor x = input_of(c, dtype, c.rank(), n), y = zeros(c, n, dtype);
      Work sent = c.send(x, to), received = c.recv(y, from);
      received.wait();
      sent.wait();
      expect(same_bytes(y, input_of(c, dtype, from, n)), c, "message" + of(dtype, n));
    }
}

/// Tags distinguish messages; those of one tag come in order.
void tags(Communicator& c) {
  if (c.size() == 1) return;
  const int to = (c.rank() + 1) % c.size(), from = (c.rank() + c.size() - 1) % c.size();
  std::vector<Tensor> kept;
  std::vector<Work> sent;
  for (int i = 0; i < 60; ++i)
    sent.push_back(c.send(kept.emplace_back(input_of(c, f32, c.rank() + i, 300)), to, i % 3));
  for (int tag = 2; tag >= 0; --tag)
    for (int i = tag; i < 60; i += 3) {
      const Tensor y = zeros(c, 300, f32);
      c.recv(y, from, tag).wait();
      expect(same_bytes(y, input_of(c, f32, from + i, 300)), c, text("message ", i, " with tag ", tag));
    }
  for (Work& work : sent) work.wait();
}

void many_in_flight(Communicator& c) {
  constexpr int calls = 200;
  std::vector<Tensor> tensors;
  std::vector<Work> work;
  for (int i = 0; i < calls; ++i) {
    const Tensor& x = tensors.emplace_back(input_of(c, f32, c.rank(), 100 + 37 * i));
    work.push_back(c.all_reduce(x, Reduction::sum));
  }
  // Odd ranks wait in reverse order.
  for (int i = 0; i < calls; ++i) work[c.rank() % 2 ? calls - 1 - i : i].wait();
  for (const Tensor& x : tensors) expect(is_reduced(c, x, Reduction::sum), c, "one of many all_reduces");
}

void dropped(Communicator& c) {
  const Tensor kept = input_of(c, f32, c.rank(), 5000);
  {
    const Tensor x = input_of(c, f32, c.rank(), 70000);
    c.all_reduce(x, Reduction::sum);
    c.all_reduce(kept, Reduction::sum);
  }
  c.barrier().wait();
  // Without a handle there is nothing to wait for: polls complete the call. On a device a read beside it is a
  // race; there calls run in their order.
  if (!kept.device().is_cpu()) c.all_reduce(zeros(c, 1, f32), Reduction::sum).wait();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!is_reduced(c, kept, Reduction::sum) && std::chrono::steady_clock::now() < deadline) c.poll();
  expect(is_reduced(c, kept, Reduction::sum), c, "a call whose handle was dropped");
  c.barrier().wait();
}

/// An output is there before the others have finished reading this rank's input.
void outputs_first(Communicator& c) {
  const Tensor x = input_of(c, f32, c.rank(), 9000), y = zeros(c, 9000 * c.size(), f32);
  Work work = c.all_gather(y, x);
  work.wait_output();
  expect(same_bytes(y, gathered(c, f32, 9000)), c, "all_gather after wait_output");
  work.wait();
  x.zero();
  c.barrier().wait();
  expect(same_bytes(y, gathered(c, f32, 9000)), c, "all_gather after its input was written over");
}

void subgroups(Communicator& c) {
  const auto parity = c.split(c.rank() % 2, -c.rank(), "parity");  // in descending order
  const auto none = c.split(-1, 0, "none");
  const auto low = c.split(c.rank() < 2 ? 0 : -1, 0, "low");
  expect(!none && (c.rank() < 2) == static_cast<bool>(low), c, "groups of a negative color");
  const int size = (c.size() + 1 - c.rank() % 2) / 2;
  expect(parity->size() == size && parity->rank() == size - 1 - c.rank() / 2, c, "ranks of a group");
  const int64_t mine = c.rank();
  const Tensor all_there = zeros(c, size, i64);
  parity->all_gather(all_there, on_device(c, Tensor::from<int64_t>({mine}))).wait();
  const Tensor all = all_there.to(cpu());
  for (int i = 0; i < size; ++i)
    expect(all.data<int64_t>()[i] == c.rank() % 2 + 2 * (size - 1 - i), c, "members of a group");
  // Calls of different groups, waited for in another order on every rank.
  const Tensor x = input_of(c, f32, parity->rank(), 5000), y = input_of(c, f32, c.rank(), 5000);
  Work first = parity->all_reduce(x, Reduction::sum), second = c.all_reduce(y, Reduction::sum);
  if (c.rank() % 2) std::swap(first, second);
  second.wait();
  first.wait();
  expect(is_reduced(*parity, x, Reduction::sum) && is_reduced(c, y, Reduction::sum), c, "two groups at once");
  const auto half = parity->split(parity->rank() % 2, 0, "half");
  half->barrier().wait();
}

/// 64 MB, by every collective.
void large(Communicator& c) {
  const int64_t n = (16 << 20) / c.size() * c.size();
  const Tensor input = Tensor::empty({n}, f32);
  float* inputs = input.data<float>();
  for (int64_t i = 0; i < n; ++i) inputs[i] = static_cast<float>((i + c.rank()) % 1000);
  const Tensor x = on_device(c, input), shard = zeros(c, n / c.size(), f32);
  c.reduce_scatter(shard, x, Reduction::sum).wait();
  c.all_reduce(x, Reduction::sum).wait();
  const Tensor own = x.narrow(0, c.rank() * (n / c.size()), n / c.size());
  expect(same_bytes(shard, own), c, "a large reduce_scatter and all_reduce differ");
  const Tensor all = zeros(c, n, f32);
  c.all_gather(all, own).wait();
  expect(same_bytes(all, x), c, "a large all_gather");
  const Tensor result = x.to(cpu());
  for (const int64_t i : {int64_t{0}, n / 3, n - 1}) {
    double sum = 0;
    for (int r = 0; r < c.size(); ++r) sum += static_cast<double>((i + r) % 1000);
    expect(result.data<float>()[i] == static_cast<float>(sum), c, "a large all_reduce");
  }
  const Tensor copy = c.rank() == 0 ? x : zeros(c, n, f32);
  c.broadcast(copy, 0).wait();
  expect(same_bytes(copy, all), c, "a large broadcast");
}

/// The bytes that each rank sends, against the formulas.
void ledger(Communicator& c) {
  Ledger& ledger = c.ledger();
  ledger.reset();
  ledger.keep_entries(true);
  const int64_t w = c.size(), n = 60 * w;
  const Tensor full = input_of(c, f32, c.rank(), n), shard = zeros(c, 60, f32);
  c.all_reduce(full, Reduction::sum, {.unit = "a", .traffic = Traffic::gradients}).wait();
  c.reduce_scatter(shard, full, Reduction::sum, {.traffic = Traffic::gradients}).wait();
  c.all_gather(full, shard, {.unit = "b", .traffic = Traffic::parameters}).wait();
  c.broadcast(shard, 0, {.traffic = Traffic::state}).wait();
  c.all_to_all(zeros(c, n, f32), full, {.traffic = Traffic::activations}).wait();
  c.barrier().wait();
  expect(ledger.total(Traffic::gradients).bytes == 3 * 4 * 60 * (w - 1), c, "ledger: gradients");
  expect(ledger.total(Traffic::parameters).bytes == 4 * 60 * (w - 1), c, "ledger: parameters");
  expect(ledger.total(Traffic::activations).bytes == 4 * 60 * (w - 1), c, "ledger: activations");
  expect(ledger.total(Traffic::state).bytes == (c.rank() == 0 && w > 1 ? 240 : 0), c, "ledger: state");
  expect(ledger.total().calls == 6 && ledger.total(Traffic::control).calls == 1, c, "ledger: calls");
  const std::vector<LedgerEntry> entries = ledger.entries();
  expect(entries.size() == 6 && entries[0].unit == "a" && entries[0].kind == CallKind::all_reduce &&
             entries[0].bytes == 4 * n && entries[0].group == c.name() && entries[2].unit == "b",
         c, "ledger: entries");
  ledger.keep_entries(false);
  ledger.reset();
}

void empties(Communicator& c) {
  const Tensor x = c.empty({3, 5000}, f32), y = c.empty({3 * c.size(), 5000}, f32);
  const Tensor expected = input_of(c, f32, c.rank(), 15000).view({3, 5000});
  x.copy_from(expected);
  c.all_gather(y, x).wait();
  expect(same_bytes(y, gathered(c, f32, 15000)), c, "tensors of the communicator's memory");
  x.storage()->release();
  x.storage()->refill();
  x.copy_from(expected);
  c.all_reduce(x, Reduction::sum).wait();
  expect(is_reduced(c, x, Reduction::sum), c, "a refilled tensor of the communicator's memory");
}

}  // namespace

std::vector<Case> cases() {
  return {{"all_reduce", all_reduces},
          {"reduce_scatter", reduce_scatters},
          {"all_gather", all_gathers},
          {"separate shards", separate_shards},
          {"broadcast", broadcasts},
          {"all_to_all", all_to_alls},
          {"uneven all_to_all", uneven_all_to_all},
          {"messages", messages},
          {"tags", tags},
          {"many in flight", many_in_flight},
          {"dropped handles", dropped},
          {"outputs before inputs", outputs_first},
          {"subgroups", subgroups},
          {"64 MB", large},
          {"ledger", ledger},
          {"memory of the communicator", empties}};
}

}  // namespace tessera::dist::conformance
