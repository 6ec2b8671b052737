// Fused optimizer updates: one pass that reads parameter, gradient and state and writes parameter and state,
// for many parameters in a launch. A block takes a chunk of one parameter; which one, it finds in the
// launch's own arguments, so nothing is uploaded. The constants of the step are computed by each block from
// the step count on the device.
#include "tensor/cuda/training/optimizer_update.h"

#include <map>
#include <tuple>
#include <vector>

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/elementwise/update_rules.h"

namespace tessera::kernels::cuda {
namespace {

using elementwise::max_update_states;
using ops::UpdateItem;

/// Elements of a block.
constexpr int64_t chunk_elements = 16 * threads_per_block;
/// Parameters of a launch: their arguments stay below 4 KiB.
constexpr int items_per_launch = 32;

/// A number of the host, or of the device, which is read when the kernel runs.
struct Number {
  double value = 1.0;
  const double* on_device = nullptr;

  Number() = default;
  explicit Number(const Tensor& tensor) {
    if (!tensor.defined()) return;
    if (tensor.device().is_cuda())
      on_device = static_cast<const double*>(tensor.raw_data());
    else
      value = *tensor.data<double>();
  }
  __device__ double read() const { return on_device != nullptr ? *on_device : value; }
};

/// The arguments of a launch.
template <class Rule>
struct Batch {
  struct Item {
    void* parameter;
    const void* gradient;
    void* state[max_update_states];
    void* rounded;
    int64_t* step;
    int64_t count;
    uint32_t end;  ///< the first block behind this item's
  };
  Rule rule;
  Number lr, clip;
  DType rounded_dtype = DType::f32;  ///< of the items' rounded copies; f32: they have none
  int size = 0;
  Item items[items_per_launch];
};

/// A step's constants, computed in f64, in the parameter's type.
template <class T, template <class> class Step>
__device__ Step<T> rounded_step(const Step<double>& step) {
  constexpr int count = sizeof(Step<double>) / sizeof(double);
  static_assert(sizeof(Step<T>) == count * sizeof(T));
  Step<T> result;
  const double* from = reinterpret_cast<const double*>(&step);
  T* to = reinterpret_cast<T*>(&result);
  for (int i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
  return result;
}

/// Element i of a state, or `unused` where the variant does not have the state.
template <bool present, class T>
__device__ __forceinline__ T& state_element(void* state, int64_t i, T& unused) {
  if constexpr (present)
    return static_cast<T*>(state)[i];
  else
    return unused;
}

template <class Rule, unsigned variant, class T, class G, int... k>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    update_kernel(const __grid_constant__ Batch<Rule> batch, std::integer_sequence<int, k...>) {
  __shared__ typename Rule::template Step<T> step;
  __shared__ T clip;
  int at = 0;
  while (batch.items[at].end <= blockIdx.x) ++at;
  const typename Batch<Rule>::Item& item = batch.items[at];
  const uint32_t first_block = at == 0 ? 0 : batch.items[at - 1].end;
  if (threadIdx.x == 0) {
    step = rounded_step<T, Rule::template Step>(batch.rule.at(batch.lr.read(), *item.step + 1));
    const double coefficient = batch.clip.read();
    clip = static_cast<T>(batch.rule.maximize ? -coefficient : coefficient);
  }
  __syncthreads();
  const int64_t begin = (blockIdx.x - first_block) * chunk_elements;
  const int64_t end = min(item.count, begin + chunk_elements);
  T* parameter = static_cast<T*>(item.parameter);
  const G* gradient = static_cast<const G*>(item.gradient);
  for (int64_t i = begin + threadIdx.x; i < end; i += threads_per_block) {
    T unused;
    T value = parameter[i];
    elementwise::apply<variant>(
        step, value, static_cast<T>(loaded(gradient[i])) * clip,
        state_element<elementwise::has_state<Rule>(variant, k)>(item.state[k], i, unused)...);
    parameter[i] = value;
    if constexpr (std::is_same_v<T, float>) {
      if (batch.rounded_dtype == DType::bf16) static_cast<bfloat16*>(item.rounded)[i] = bfloat16(value);
      if (batch.rounded_dtype == DType::f16) static_cast<float16*>(item.rounded)[i] = float16(value);
    }
  }
}

/// Counts the step, when all blocks have read it.
template <class Rule>
__global__ void count_kernel(const __grid_constant__ Batch<Rule> batch) {
  if (threadIdx.x < batch.size) ++*batch.items[threadIdx.x].step;
}

template <class Rule, class T, class G, unsigned... variant>
void launch_variant(const Batch<Rule>& batch, cudaStream_t stream,
                    std::integer_sequence<unsigned, variant...>) {
  constexpr int states = sizeof(Rule::states) / sizeof(elementwise::UpdateState);
  const uint32_t blocks = batch.items[batch.size - 1].end;
  const unsigned chosen = batch.rule.variant();
  ((chosen == variant ? update_kernel<Rule, variant, T, G>
        <<<blocks, threads_per_block, 0, stream>>>(batch, std::make_integer_sequence<int, states>())
                      : void()),
   ...);
  cuda_runtime::check_launch(Rule::name);
  count_kernel<Rule><<<1, items_per_launch, 0, stream>>>(batch);
  cuda_runtime::check_launch(Rule::name);
}

template <class Rule>
void launch_batch(const Batch<Rule>& batch, DType parameter, DType gradient, cudaStream_t stream) {
  constexpr auto variants = std::make_integer_sequence<unsigned, Rule::variants>();
  if (parameter == f64) return launch_variant<Rule, double, double>(batch, stream, variants);
  switch (gradient) {
    case DType::bf16:
      return launch_variant<Rule, float, bfloat16>(batch, stream, variants);
    case DType::f16:
      return launch_variant<Rule, float, float16>(batch, stream, variants);
    default:
      return launch_variant<Rule, float, float>(batch, stream, variants);
  }
}

void* data_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.raw_data() : nullptr;
}

}  // namespace

template <class Rule>
void optimizer_update(std::span<const UpdateItem> items, std::span<const ops::UpdateGroup<Rule>> groups,
                      const Tensor& clip) {
  // One launch takes items of one group and of the same dtypes.
  std::map<std::tuple<int, DType, DType, DType>, std::vector<const UpdateItem*>> alike;
  for (const UpdateItem& item : items) {
    if (!item.gradient.defined()) continue;
    require<DeviceError>(item.step.device() == item.parameter.device(), Rule::name, ": parameter '",
                         item.name, "': expected its step count on ", item.parameter.device(), ", got ",
                         describe(item.step));
    const DType rounded = item.rounded.defined() ? item.rounded.dtype() : DType::f32;
    alike[{item.group, item.parameter.dtype(), item.gradient.dtype(), rounded}].push_back(&item);
  }
  for (const auto& [key, members] : alike) {
    const auto& [group, parameter, gradient, rounded] = key;
    const Device device = members[0]->parameter.device();
    const cuda_runtime::DeviceGuard guard(device);
    const cudaStream_t stream = cuda_runtime::current_stream(device);
    for (size_t first = 0; first < members.size(); first += items_per_launch) {
      Batch<Rule> batch{groups[group].rule, Number(groups[group].lr), Number(clip), rounded, 0, {}};
      uint32_t blocks = 0;
      for (size_t i = first; i < std::min(members.size(), first + items_per_launch); ++i) {
        const UpdateItem& item = *members[i];
        const int64_t count = item.parameter.numel();
        blocks += static_cast<uint32_t>(std::max<int64_t>(1, (count + chunk_elements - 1) / chunk_elements));
        auto& entry = batch.items[batch.size++];
        entry = {data_of(item.parameter),
                 data_of(item.gradient),
                 {},
                 data_of(item.rounded),
                 static_cast<int64_t*>(data_of(item.step)),
                 count,
                 blocks};
        for (int k = 0; k < max_update_states; ++k) entry.state[k] = data_of(item.state[k]);
      }
      launch_batch(batch, parameter, gradient, stream);
    }
  }
}

#define TESSERA_INSTANTIATE(Rule)                             \
  template void optimizer_update(std::span<const UpdateItem>, \
                                 std::span<const ops::UpdateGroup<elementwise::Rule>>, const Tensor&);
TESSERA_UPDATE_RULES(TESSERA_INSTANTIATE)
#undef TESSERA_INSTANTIATE

}  // namespace tessera::kernels::cuda
