#include "dist/comm/interface/communicator.h"

#include <algorithm>

#include "dist/comm/interface/fault_injection.h"
#include "tensor/cpu/combine_sources.h"

namespace tessera::dist {
namespace {

void check_tensor(const char* call, const char* role, const Tensor& tensor, Device device) {
  require<ShapeError>(tensor.defined(), call, ": the ", role, " is undefined");
  require<DeviceError>(tensor.device() == device, call, ": expected the ", role, " on ", device, ", got ",
                       describe(tensor));
  require<ShapeError>(tensor.is_contiguous(), call, ": expected a contiguous ", role, ", got ",
                      describe(tensor));
}

/// Whether it has a row for each of `ranks` ranks, each of them contiguous, in ascending order.
bool has_rows(const Tensor& tensor, int ranks) {
  return tensor.defined() && tensor.dim() == 2 && tensor.size(0) == ranks &&
         (tensor.size(1) <= 1 || tensor.strides()[1] == 1) && tensor.strides()[0] >= tensor.size(1);
}

/// `check_tensor`, but the rows of the tensor, one for each rank, may lie apart.
void check_shards(const char* call, const char* role, const Tensor& tensor, Device device, int ranks) {
  const bool is_apart = has_rows(tensor, ranks) && !tensor.is_contiguous();
  check_tensor(call, role, is_apart ? tensor.select(0, 0) : tensor, device);
}

void check_dtypes(const char* call, const Tensor& output, const Tensor& input) {
  require<DTypeError>(output.dtype() == input.dtype(), call, ": output ", describe(output), " and input ",
                      describe(input), " must have one dtype");
}

void check_pair(const char* call, const Tensor& output, const Tensor& input, Device device) {
  check_tensor(call, "output", output, device);
  check_tensor(call, "input", input, device);
  check_dtypes(call, output, input);
}

/// The bytes from a shard of `full` to the next.
int64_t bytes_between(const Tensor& full, int ranks) {
  return full.is_contiguous() ? full.nbytes() / ranks : full.strides()[0] * size_of(full.dtype());
}

bool overlap(const char* first, int64_t first_bytes, const char* second, int64_t second_bytes) {
  return first < second + second_bytes && second < first + first_bytes;
}

bool overlap(const Tensor& a, const Tensor& b) {
  return a.shares_storage(b) && a.nbytes() > 0 && b.nbytes() > 0 &&
         overlap(static_cast<const char*>(a.raw_data()), a.nbytes(), static_cast<const char*>(b.raw_data()),
                 b.nbytes());
}

/// `shard` may be the `index`th of the equal shards of `full`, or not overlap with it at all.
void check_overlap(const char* call, const Tensor& full, const Tensor& shard, int index, int ranks) {
  if (!full.shares_storage(shard) || shard.nbytes() == 0) return;
  const int64_t step = bytes_between(full, ranks);
  const char* const first = static_cast<const char*>(full.raw_data());
  const char* const own = static_cast<const char*>(shard.raw_data());
  require<ValueError>(own == first + index * step ||
                          !overlap(first, (ranks - 1) * step + shard.nbytes(), own, shard.nbytes()),
                      call, ": output and input overlap, but not as this rank's own shard");
}

/// The bytes of all equal shards but one.
int64_t all_but_one(int64_t bytes, int shards) {
  return bytes * (shards - 1) / shards;
}

void copy_if_elsewhere(const Tensor& to, const Tensor& from) {
  if (from.nbytes() > 0 && to.raw_data() != from.raw_data())
    kernels::cpu::copy_bytes(to.raw_data(), from.raw_data(), from.nbytes());
}

void check_counts(const char* role, std::span<const int64_t> counts, int size, const Tensor& tensor) {
  require<ShapeError>(std::ssize(counts) == size, "all_to_all: expected ", size, " ", role, " counts, got ",
                      counts.size());
  int64_t sum = 0;
  for (const int64_t count : counts) {
    require<ShapeError>(count >= 0, "all_to_all: negative ", role, " count ", count);
    sum += count;
  }
  require<ShapeError>(sum == tensor.numel(), "all_to_all: the ", role, " counts sum to ", sum, ", the ", role,
                      " is ", describe(tensor));
}

}  // namespace

Communicator::Communicator(std::string name, int rank, std::vector<int> members,
                           std::shared_ptr<Ledger> ledger)
    : name_(std::move(name)), rank_(rank), members_(std::move(members)), ledger_(std::move(ledger)) {}

Communicator::~Communicator() = default;

Work Communicator::begin(Call call, const CallOptions& options, int64_t bytes_sent) {
  call.header.unit = options.unit;
  call.header.sequence = is_message(call.header.kind)
                             ? next_message_[{call.header.kind, call.peer, call.tag}]++
                             : next_sequence_++;
  ledger_->enter({.kind = call.header.kind,
                  .traffic = options.traffic,
                  .group = name_,
                  .unit = call.header.unit,
                  .bytes = call.header.bytes,
                  .bytes_sent = bytes_sent});
  run_comm_hook(CommPoint::start, call.header);
  if (size() > 1 || !device().is_cpu()) return Work(start(std::move(call)));
  if (call.input.defined() && call.output.defined()) copy_if_elsewhere(call.output, call.input);
  return {};
}

Work Communicator::all_reduce(const Tensor& tensor, Reduction reduction, const CallOptions& options) {
  check_tensor("all_reduce", "tensor", tensor, device());
  Call call;
  call.header = {.bytes = tensor.nbytes(),
                 .kind = CallKind::all_reduce,
                 .reduction = reduction,
                 .dtype = tensor.dtype()};
  call.output = call.input = tensor;
  return begin(std::move(call), options, 2 * (size() - 1) * tensor.nbytes() / size());
}

Work Communicator::all_gather(const Tensor& output, const Tensor& input, const CallOptions& options) {
  check_shards("all_gather", "output", output, device(), size());
  check_tensor("all_gather", "input", input, device());
  check_dtypes("all_gather", output, input);
  require<ShapeError>(output.numel() == size() * input.numel(), "all_gather: expected an output of ", size(),
                      " times the input ", describe(input), ", got ", describe(output));
  check_overlap("all_gather", output, input, rank_, size());
  Call call;
  call.header = {.bytes = output.nbytes(), .kind = CallKind::all_gather, .dtype = input.dtype()};
  call.output = output;
  call.input = input;
  return begin(std::move(call), options, all_but_one(output.nbytes(), size()));
}

Work Communicator::reduce_scatter(const Tensor& output, const Tensor& input, Reduction reduction,
                                  const CallOptions& options) {
  check_tensor("reduce_scatter", "output", output, device());
  check_shards("reduce_scatter", "input", input, device(), size());
  check_dtypes("reduce_scatter", output, input);
  require<ShapeError>(input.numel() == size() * output.numel(), "reduce_scatter: expected an input of ",
                      size(), " times the output ", describe(output), ", got ", describe(input));
  check_overlap("reduce_scatter", input, output, rank_, size());
  Call call;
  call.header = {.bytes = input.nbytes(),
                 .kind = CallKind::reduce_scatter,
                 .reduction = reduction,
                 .dtype = input.dtype()};
  call.output = output;
  call.input = input;
  return begin(std::move(call), options, all_but_one(input.nbytes(), size()));
}

Work Communicator::broadcast(const Tensor& tensor, int root, const CallOptions& options) {
  check_tensor("broadcast", "tensor", tensor, device());
  require<IndexError>(0 <= root && root < size(), "broadcast: root ", root, " is not one of the ", size(),
                      " ranks of group '", name_, "'");
  Call call;
  call.header = {
      .bytes = tensor.nbytes(), .kind = CallKind::broadcast, .dtype = tensor.dtype(), .root = root};
  call.output = call.input = tensor;
  return begin(std::move(call), options, root == rank_ && size() > 1 ? tensor.nbytes() : 0);
}

Work Communicator::all_to_all(const Tensor& output, const Tensor& input, const CallOptions& options) {
  check_pair("all_to_all", output, input, device());
  require<ShapeError>(input.numel() == output.numel() && input.numel() % size() == 0,
                      "all_to_all: expected output and input of one size, a multiple of ", size(), ", got ",
                      describe(output), " and ", describe(input));
  const std::vector<int64_t> counts(static_cast<size_t>(size()), input.numel() / size());
  return all_to_all(output, counts, input, counts, options);
}

Work Communicator::all_to_all(const Tensor& output, std::span<const int64_t> output_counts,
                              const Tensor& input, std::span<const int64_t> input_counts,
                              const CallOptions& options) {
  check_pair("all_to_all", output, input, device());
  check_counts("output", output_counts, size(), output);
  check_counts("input", input_counts, size(), input);
  require<ValueError>(!overlap(output, input), "all_to_all: output and input overlap");
  require<ShapeError>(output_counts[rank_] == input_counts[rank_], "all_to_all: rank ", rank_,
                      " sends itself ", input_counts[rank_], " elements and expects ", output_counts[rank_]);
  Call call;
  call.header = {.bytes = input.nbytes(), .kind = CallKind::all_to_all, .dtype = input.dtype()};
  call.output = output;
  call.input = input;
  call.output_counts = output_counts;
  call.input_counts = input_counts;
  const int64_t kept = input_counts[rank_] * size_of(input.dtype());
  return begin(std::move(call), options, input.nbytes() - kept);
}

Work Communicator::message(CallKind kind, const Tensor& tensor, int peer, int tag,
                           const CallOptions& options) {
  const bool sends = kind == CallKind::send;
  check_tensor(name_of(kind), "tensor", tensor, device());
  require<IndexError>(0 <= peer && peer < size() && peer != rank_, name_of(kind), ": rank ", peer,
                      " is not another one of the ", size(), " ranks of group '", name_, "'");
  Call call;
  call.header = {.bytes = tensor.nbytes(), .kind = kind, .dtype = tensor.dtype()};
  (sends ? call.input : call.output) = tensor;
  call.peer = peer;
  call.tag = tag;
  return begin(std::move(call), options, sends ? tensor.nbytes() : 0);
}

Work Communicator::send(const Tensor& tensor, int to, int tag, const CallOptions& options) {
  return message(CallKind::send, tensor, to, tag, options);
}

Work Communicator::recv(const Tensor& tensor, int from, int tag, const CallOptions& options) {
  return message(CallKind::recv, tensor, from, tag, options);
}

Work Communicator::barrier() {
  Call call;
  call.header = {.bytes = 0, .kind = CallKind::barrier};
  return begin(std::move(call), {}, 0);
}

Tensor Communicator::empty(const Shape& shape, DType dtype, Storage::Initial initial) {
  return Tensor::over(make_storage(shape.numel() * size_of(dtype), initial), dtype, shape,
                      contiguous_strides(shape));
}

void Communicator::gather_integers(std::span<const int64_t> own, std::span<int64_t> all) {
  Call call;
  call.input = Tensor::from(own, {std::ssize(own)});
  call.output = Tensor::empty({std::ssize(all)}, i64);
  call.header = {.bytes = call.output.nbytes(), .kind = CallKind::split, .dtype = i64};
  const Tensor output = call.output;
  begin(std::move(call), {}, 0).wait();
  std::copy_n(output.data<int64_t>(), all.size(), all.begin());
}

std::shared_ptr<Communicator> Communicator::split(int color, int key, const std::string& name) {
  std::vector<int64_t> choices(2 * static_cast<size_t>(size())), tokens(static_cast<size_t>(size()));
  gather_integers(std::vector<int64_t>{color, key}, choices);
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r)
    if (color >= 0 && choices[2 * r] == color) ranks.push_back(r);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](int a, int b) { return choices[2 * a + 1] < choices[2 * b + 1]; });
  const bool first = !ranks.empty() && ranks.front() == rank_;
  gather_integers(std::vector<int64_t>{first ? open_group(ranks) : 0}, tokens);
  if (color < 0) return nullptr;
  const auto index = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
  return join_group(name, ranks, static_cast<int>(index), tokens[ranks.front()]);
}

}  // namespace tessera::dist
