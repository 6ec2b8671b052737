#include "tools/cuda_sim/libraries/nccl/exchange.h"

#include <cstring>

#include "tools/cuda_sim/libraries/half_types.h"

namespace tessera::cuda_sim::nccl {

namespace {

double load(const void* from, ncclDataType_t type, size_t index) {
  switch (type) {
    case ncclInt8:
      return load_as<int8_t>(from, index);
    case ncclUint8:
      return load_as<uint8_t>(from, index);
    case ncclInt32:
      return load_as<int32_t>(from, index);
    case ncclUint32:
      return load_as<uint32_t>(from, index);
    case ncclFloat16:
      return half_to_double(load_as<uint16_t>(from, index));
    case ncclFloat32:
      return load_as<float>(from, index);
    case ncclFloat64:
      return load_as<double>(from, index);
    default:
      return bfloat_to_double(load_as<uint16_t>(from, index));
  }
}

void store(void* to, ncclDataType_t type, size_t index, double value) {
  switch (type) {
    case ncclInt8:
      store_as(to, index, static_cast<int8_t>(value));
      break;
    case ncclUint8:
      store_as(to, index, static_cast<uint8_t>(value));
      break;
    case ncclInt32:
      store_as(to, index, static_cast<int32_t>(value));
      break;
    case ncclUint32:
      store_as(to, index, static_cast<uint32_t>(value));
      break;
    case ncclFloat16:
      store_as(to, index, double_to_half(value));
      break;
    case ncclFloat32:
      store_as(to, index, static_cast<float>(value));
      break;
    case ncclFloat64:
      store_as(to, index, value);
      break;
    default:
      store_as(to, index, float_to_bfloat(static_cast<float>(value)));
  }
}

template <class T>
T reduce_pair(ncclRedOp_t reduction, T a, T b) {
  switch (reduction) {
    case ncclProd:
      return a * b;
    case ncclMax:
      return a < b || b != b ? b : a;
    case ncclMin:
      return b < a || b != b ? b : a;
    default:
      return a + b;
  }
}

/// Element `index` over all ranks, in the order of ranks.
void reduce_element(const Call& call, const Buffers& in, size_t index, void* out, size_t to) {
  if (call.type == ncclInt64 || call.type == ncclUint64) {
    // Two's complement: sums and products are the same for both.
    auto value = load_as<uint64_t>(in[0].data(), index);
    for (size_t r = 1; r < in.size(); ++r) {
      const auto next = load_as<uint64_t>(in[r].data(), index);
      value = call.type == ncclInt64 && (call.reduction == ncclMax || call.reduction == ncclMin)
                  ? static_cast<uint64_t>(
                        reduce_pair(call.reduction, static_cast<int64_t>(value), static_cast<int64_t>(next)))
                  : reduce_pair(call.reduction, value, next);
    }
    store_as(out, to, call.reduction == ncclAvg ? value / in.size() : value);
    return;
  }
  double value = load(in[0].data(), call.type, index);
  for (size_t r = 1; r < in.size(); ++r)
    value = reduce_pair(call.reduction, value, load(in[r].data(), call.type, index));
  store(out, call.type, to, call.reduction == ncclAvg ? value / static_cast<double>(in.size()) : value);
}

void copy_elements(const Call& call, const std::vector<std::byte>& from, size_t from_index, size_t to_index) {
  const size_t size = element_bytes(call.type);
  std::memcpy(static_cast<std::byte*>(call.out) + to_index * size, from.data() + from_index * size,
              call.count * size);
}

}  // namespace

size_t element_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 2;
  }
}

size_t read_elements(const Call& call) {
  const auto ranks = static_cast<size_t>(call.team->size);
  switch (call.kind) {
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return call.count * ranks;
    case Kind::scatter:
      return call.rank == call.root ? call.count * ranks : 0;
    case Kind::broadcast:
      return call.rank == call.root ? call.count : 0;
    case Kind::receive:
      return 0;
    default:
      return call.count;
  }
}

size_t written_elements(const Call& call) {
  const auto ranks = static_cast<size_t>(call.team->size);
  switch (call.kind) {
    case Kind::all_gather:
    case Kind::all_to_all:
      return call.count * ranks;
    case Kind::gather:
      return call.rank == call.root ? call.count * ranks : 0;
    case Kind::reduce:
      return call.rank == call.root ? call.count : 0;
    case Kind::send:
      return 0;
    default:
      return call.count;
  }
}

void write_rank(const Buffers& in, const Call& call) {
  const auto rank = static_cast<size_t>(call.rank), root = static_cast<size_t>(call.root);
  switch (call.kind) {
    case Kind::all_reduce:
      for (size_t i = 0; i < call.count; ++i) reduce_element(call, in, i, call.out, i);
      break;
    case Kind::reduce:
      if (rank == root)
        for (size_t i = 0; i < call.count; ++i) reduce_element(call, in, i, call.out, i);
      break;
    case Kind::reduce_scatter:
      for (size_t i = 0; i < call.count; ++i) reduce_element(call, in, rank * call.count + i, call.out, i);
      break;
    case Kind::broadcast:
      copy_elements(call, in[root], 0, 0);
      break;
    case Kind::all_gather:
      for (size_t r = 0; r < in.size(); ++r) copy_elements(call, in[r], 0, r * call.count);
      break;
    case Kind::all_to_all:
      for (size_t r = 0; r < in.size(); ++r) copy_elements(call, in[r], rank * call.count, r * call.count);
      break;
    case Kind::gather:
      if (rank == root)
        for (size_t r = 0; r < in.size(); ++r) copy_elements(call, in[r], 0, r * call.count);
      break;
    case Kind::scatter:
      copy_elements(call, in[root], rank * call.count, 0);
      break;
    case Kind::receive:
      copy_elements(call, in[0], 0, 0);
      break;
    case Kind::send:
      break;
  }
}

bool agree(const Call& a, const Call& b) {
  if (a.type != b.type || a.count != b.count) return false;
  if (a.kind == Kind::send || a.kind == Kind::receive) return b.kind == Kind::send || b.kind == Kind::receive;
  return a.kind == b.kind && a.reduction == b.reduction && a.root == b.root;
}

}  // namespace tessera::cuda_sim::nccl
