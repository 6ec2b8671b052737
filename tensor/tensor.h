#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "tensor/device.h"
#include "tensor/error.h"
#include "tensor/memory/storage.h"
#include "tensor/methods.h"
#include "tensor/noted_squares.h"
#include "tensor/shape.h"
#include "tensor/types/dtype.h"
#include "tensor/types/scalar.h"

namespace tessera {

class Index;
struct Slice;

/// Counts the in-place changes of a tensor and its views.
struct VersionCounter : RefCounted<VersionCounter> {
  std::atomic<uint64_t> value{0};  ///< the number of changes so far
  NotedSquares squares;            ///< noted by the operations that wrote the values
};

/// Values that lie one after another: a std::vector, a std::array.
template <class V>
concept ContiguousValues = requires(const V& values) {
  detail::DTypeOf<std::remove_cvref_t<decltype(*values.data())>>::value;
  values.size();
};

/// An array: a window onto a storage on a device, given by dtype, shape, strides and offset. A Tensor is a
/// handle: copies share the storage, and a write through one changes all. It has no gradients (see
/// autograd/variable.h). What is computed from it has methods too (tensor/methods.h): `x.exp()`.
class Tensor : public TensorMethods<Tensor> {
 public:
  /// An undefined tensor. Every method but `defined`, and every operation on it, throws ValueError with the
  /// name of the method or operation.
  Tensor() = default;

  /// Uninitialised, contiguous. On meta: shape only. Throws ShapeError for a negative extent, or when 64 bits
  /// do not hold the bytes; OutOfMemoryError.
  static Tensor empty(const Shape& shape, DType dtype = f32, Device device = cpu());
  /// Uninitialised, of the same shape, dtype and device; contiguous.
  static Tensor empty_like(const Tensor& other) {
    other.require_defined("empty_like");
    return empty(other.shape_, other.dtype_, other.device());
  }
  /// All bytes zero.
  static Tensor zeros(const Shape& shape, DType dtype = f32, Device device = cpu());
  /// All bytes zero, of the same shape, dtype and device; contiguous.
  static Tensor zeros_like(const Tensor& other) {
    other.require_defined("zeros_like");
    return zeros(other.shape_, other.dtype_, other.device());
  }
  /// A copy of `values` in row-major order, on the CPU. Throws ShapeError when their count is not the
  /// shape's.
  /// @{
  template <class Value>
  static Tensor from(std::span<const Value> values, const Shape& shape);
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape) {
    return from(std::span<const T>(values.begin(), values.size()), shape);
  }
  template <ContiguousValues V>
  static Tensor from(const V& values, const Shape& shape) {
    return from(std::span(values.data(), values.size()), shape);
  }
  /// @}
  /// One-dimensional, of a list in braces, a vector or an array.
  /// @{
  template <class T>
  static Tensor from(std::initializer_list<T> values) {
    return from(values, {static_cast<int64_t>(values.size())});
  }
  template <ContiguousValues V>
  static Tensor from(const V& values) {
    return from(values, {static_cast<int64_t>(values.size())});
  }
  /// @}
  /// 0-dim.
  template <class T>
  static Tensor scalar(T value) {
    return from({value}, {});
  }
  /// A view of `storage`. Throws ShapeError when an element would lie outside it.
  static Tensor over(intrusive_ptr<Storage> storage, DType dtype, const Shape& shape, const Strides& strides,
                     int64_t offset = 0);

  // clang-format off
  /// Errors that say what to write: a Tensor has values only, and Variables are differentiated.
  /// @{
  void backward() const = delete;             // a Tensor has no history: compute the loss from a Variable
  void grad() const = delete;                 // a Tensor has no gradient: Variable w = Variable::leaf(tensor)
  void requires_grad() const = delete;        // a Tensor has no gradient: Variable w = Variable::leaf(tensor)
  void requires_grad_(bool = true) = delete;  // a Tensor has no gradient: Variable w = Variable::leaf(tensor)
  /// @}
  /// An error that says what to write: `x == y` and its like compare element by element.
  explicit operator bool() const = delete;    // comparisons give a Tensor: write all(x == y).item() or allclose(x, y)
  // clang-format on

  /// Whether it is a window onto a storage.
  bool defined() const { return static_cast<bool>(storage_); }
  /// The type of the elements.
  DType dtype() const {
    require_defined("dtype");
    return dtype_;
  }
  /// Where the values are.
  Device device() const {
    require_defined("device");
    return storage_->device();
  }
  /// Whether it has no values: on meta.
  bool is_meta() const {
    require_defined("is_meta");
    return storage_->device().is_meta();
  }
  /// The extents, one per dimension; none for a 0-dim tensor.
  const Shape& shape() const {
    require_defined("shape");
    return shape_;
  }
  /// Elements in the storage from one index of a dimension to the next; 0 where an extent was expanded.
  const Strides& strides() const {
    require_defined("strides");
    return strides_;
  }
  /// The number of dimensions.
  int ndim() const {
    require_defined("ndim");
    return shape_.ndim();
  }
  /// `ndim()`, by the name in libtorch.
  int dim() const { return ndim(); }
  /// The number of elements: 1 for a 0-dim tensor.
  int64_t numel() const {
    require_defined("numel");
    return numel_;
  }
  /// Bytes of its elements.
  int64_t nbytes() const {
    require_defined("nbytes");
    return numel_ * size_of(dtype_);
  }
  /// The extent of `dim`, counted from the end when negative. Throws IndexError.
  int64_t size(int64_t dim) const {
    require_defined("size");
    return shape_[normalize_dim(dim, shape_.ndim(), "size")];
  }
  /// `shape()`, by PyTorch's name.
  const Shape& size() const { return shape(); }
  /// The extents for a structured binding: `auto [B, T, C] = x.dims<3>()`. Throws ShapeError when there are
  /// not N dimensions.
  template <size_t N>
  std::array<int64_t, N> dims() const {
    return shape().template dims<N>();
  }
  /// Whether the dtype is f64, f32, bf16 or f16.
  bool is_floating_point() const { return is_floating(dtype()); }
  /// Elements from the storage's start to the first one.
  int64_t offset() const {
    require_defined("offset");
    return offset_;
  }
  /// Whether the elements lie in row-major order without gaps; always true without elements.
  bool is_contiguous() const {
    require_defined("is_contiguous");
    return contiguous_;
  }
  /// The storage that it is a window onto, shared with its views.
  const intrusive_ptr<Storage>& storage() const {
    require_defined("storage");
    return storage_;
  }
  /// Whether both are windows onto one storage.
  bool shares_storage(const Tensor& other) const {
    require_defined("shares_storage");
    other.require_defined("shares_storage");
    return storage_ == other.storage_;
  }

  /// The first element, computed from the storage at each call; null on meta. Throws StorageError when
  /// released, NoBatchingRule on a batched device.
  void* raw_data() const {
    require_defined("data");
    if (storage_->device().kind >= DeviceKind::meta) [[unlikely]]
      return data_without_values();
    return static_cast<char*>(storage_->data()) + offset_ * size_of(dtype_);
  }
  /// The same, as T*. Throws DTypeError when T is not the dtype, DeviceError when not on the CPU.
  template <class T>
  T* data() const {
    require_defined("data");
    if (dtype_ != dtype_of<T> || !storage_->device().is_cpu()) [[unlikely]]
      throw_not_readable(dtype_of<T>);
    return reinterpret_cast<T*>(raw_data());
  }
  /// The only element, converted. Throws ShapeError when there is not exactly one, DeviceError on meta.
  double item() const;
  /// The only element of an integer or bool tensor.
  int64_t item_i64() const;
  /// The only element as a T: `item<float>()`; of an integer T by `item_i64`. Throws as those.
  template <class T>
  T item() const requires(std::is_arithmetic_v<T>) {
    if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(item());
    else
      return static_cast<T>(item_i64());
  }

  // Views: no bytes are copied, and the version counter is shared.

  /// Sizes without braces: `x.view(2, -1)` is `x.view({2, -1})`.
  /// @{
  template <std::integral... Sizes>
  Tensor view(Sizes... sizes) const requires(sizeof...(Sizes) > 1) {
    return view(Shape{static_cast<int64_t>(sizes)...});
  }
  template <std::integral... Sizes>
  Tensor reshape(Sizes... sizes) const requires(sizeof...(Sizes) > 1) {
    return reshape(Shape{static_cast<int64_t>(sizes)...});
  }
  template <std::integral... Sizes>
  Tensor permute(Sizes... sizes) const requires(sizeof...(Sizes) > 1) {
    return permute(Shape{static_cast<int64_t>(sizes)...});
  }
  template <std::integral... Sizes>
  Tensor expand(Sizes... sizes) const requires(sizeof...(Sizes) > 1) {
    return expand(Shape{static_cast<int64_t>(sizes)...});
  }
  /// @}
  /// The same elements under another shape; one extent may be -1. Throws ShapeError when the sizes differ, or
  /// when the strides cannot express it (`reshape` copies then).
  Tensor view(const Shape& shape) const;
  /// Exchanges two dimensions, counted from the end when negative. Throws IndexError.
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  /// Dimension i of the result is dimension `order[i]` of this one.
  Tensor permute(const Shape& order) const;
  /// Broadcasts extents of 1 (and new leading dimensions) by stride 0; -1 keeps an extent.
  Tensor expand(const Shape& shape) const;
  /// Elements start, start+step, ... below `end` along `dim`; negative bounds count from the end and are
  /// clamped. Throws ValueError for a step below 1.
  Tensor slice(int64_t dim, int64_t start, int64_t end, int64_t step = 1) const;
  /// `slice(dim, start, start + length)`. Throws IndexError when that is not inside.
  Tensor narrow(int64_t dim, int64_t start, int64_t length) const;
  /// The elements at index `i` of `dim`, without that dimension. Throws IndexError.
  Tensor select(int64_t dim, int64_t i) const;
  /// Inserts a dimension of extent 1 as dimension `dim` of the result, counted from the result's end when
  /// negative. Throws IndexError, ShapeError for more than 8 dimensions.
  Tensor unsqueeze(int64_t dim) const;
  /// Removes `dim`. Throws ShapeError when its extent is not 1.
  Tensor squeeze(int64_t dim) const;
  /// Removes all dimensions of extent 1.
  Tensor squeeze() const;
  /// Joins dimensions start..end into one. As `reshape`.
  Tensor flatten(int64_t start = 0, int64_t end = -1) const;
  /// Any window onto the storage, offset in elements. Throws ShapeError when it leaves the storage, or when
  /// 64 bits do not hold its size.
  Tensor as_strided(const Shape& shape, const Strides& strides, int64_t offset) const;
  /// The same window with a version counter of its own (a parameter inside a flat buffer), or with the one of
  /// `source`.
  /// @{
  Tensor with_own_version() const;
  Tensor with_version_of(const Tensor& source) const;
  /// @}

  // Copies.

  /// As `view`, copying where strides cannot express it.
  Tensor reshape(const Shape& shape) const;
  /// This tensor if contiguous, else a contiguous copy.
  Tensor contiguous() const;
  /// A contiguous copy in a new storage.
  Tensor clone() const;
  /// On another device: this tensor if already there. To meta: the shape. Throws DeviceError from meta.
  Tensor to(Device device) const;
  /// Converted to `dtype`, as ops::cast: this tensor if it has that dtype; then on `device`.
  /// @{
  Tensor to(DType dtype) const;
  Tensor to(Device device, DType dtype) const;
  /// By the device's name, "cpu" or "cuda:0". Throws ValueError for another name.
  Tensor to(const char* device) const { return to(parse_device(device)); }
  /// @}
  /// This tensor: `detach` of a Variable gives it.
  Tensor detach() const { return *this; }
  /// Copies the values of `source` (same shape and dtype) into this tensor and counts a change. The two may
  /// overlap: the values that `source` had before are written (tensor/overlap.h). Throws ValueError when
  /// elements of this tensor overlap each other, as in an expanded one.
  void copy_from(const Tensor& source) const;
  /// All bytes zero; counts a change. Throws ValueError as `copy_from`.
  void zero() const;

  // Indexing, with the types of tensor/index.h: `x[2]`, `x.index({Slice(1, 5), ids})`.

  /// The view `select(0, i)`, or of a range of dimension 0. `x[2] = y` and `x[2][0] = 1.0` write into x.
  /// @{
  Tensor operator[](int64_t i) const { return select(0, i); }
  Tensor operator[](const Slice& range) const;
  /// @}
  /// The elements that the indices address, as in PyTorch (tensor/README.md, "Indexing"): a view, or a copy
  /// where one of the indices is a tensor. Throws IndexError for a position outside its dimension, for more
  /// indices than dimensions, and for masks and positions that do not fit; DTypeError for a tensor that is
  /// neither bool, i64 nor i32; ValueError for a step below 1; DeviceError for a mask on meta.
  /// @{
  const Tensor index(std::initializer_list<Index> indices) const;
  const Tensor index(std::span<const Index> indices) const;
  /// @}
  /// Writes `value`, broadcast, to the elements that the indices address, or adds it with `accumulate`;
  /// counts a change. Of several values for one element the last one stays; sums do not depend on the number
  /// of threads. The value is converted to this tensor's dtype. Throws as `index`, before anything is
  /// written; ShapeError when the value does not broadcast; DTypeError for a floating value in an integer
  /// tensor.
  /// @{
  void index_put_(std::initializer_list<Index> indices, const Tensor& value, bool accumulate = false) const;
  void index_put_(std::initializer_list<Index> indices, const Scalar& value, bool accumulate = false) const;
  void index_put_(std::span<const Index> indices, const Tensor& value, bool accumulate = false) const;
  void index_put_(std::span<const Index> indices, const Scalar& value, bool accumulate = false) const;
  /// @}
  /// `x[tensor] = value` would write to a copy: the message says what to write instead.
  template <class T>
  requires std::convertible_to<const T&, Tensor>
  void operator[](const T&) const {
    static_assert(sizeof(T) == 0, "write x.index({tensor}) to read, x.index_put_({tensor}, value) to write");
  }

  /// To a variable, another handle.
  /// @{
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  /// @}
  /// To the result of an expression, `x[2] = y`: the values, as `index_put_({}, value)`. So x changes where
  /// the result is a view of x.
  /// @{
  void operator=(const Tensor& value) &&;
  void operator=(Tensor&& value) && { std::move(*this) = static_cast<const Tensor&>(value); }
  template <class T>
  requires std::convertible_to<T, Scalar>
  void operator=(T value) && { assign(value); }
  /// @}
  /// To the result of `index`, which may be a copy: the message says what to write instead.
  template <class T>
  void operator=(const T&) const&& {
    static_assert(sizeof(T) == 0, "write x.index_put_({...}, value) instead of x.index({...}) = value");
  }

  /// Counts in-place changes of this tensor and its views.
  uint64_t version() const {
    require_defined("version");
    return version_->value.load(std::memory_order_relaxed);
  }
  /// To be called by code that writes in place.
  void bump_version() const {
    require_defined("bump_version");
    version_->value.fetch_add(1, std::memory_order_relaxed);
  }
  /// The counter of the values' changes, which this tensor and its views share.
  const intrusive_ptr<VersionCounter>& version_counter() const { return version_; }

  /// Notes the sum of squares of the values, if they are contiguous, which holds until they, or those of a
  /// view, change: for what has just written them, while no other thread uses the tensor or its views.
  void note_squares(double sum) const {
    if (is_contiguous()) version_->squares.note(version(), raw_data(), numel(), sum);
  }
  /// What was noted of the values as they are, by this tensor or a view of the same elements; else nothing.
  std::optional<double> noted_squares() const {
    return is_contiguous() ? version_->squares.find(version(), raw_data(), numel()) : std::nullopt;
  }

 private:
  void require_defined(const char* method) const {
    if (!storage_) [[unlikely]]
      throw_undefined(method);
  }
  [[noreturn]] static void throw_undefined(const char* method);
  void assign(const Scalar& value) const;
  Tensor with_layout(const Shape& shape, const Strides& strides, int64_t offset) const;
  [[noreturn]] void throw_not_readable(DType expected) const;
  void* data_without_values() const;
  static bool layout_is_contiguous(const Shape& shape, const Strides& strides);

  intrusive_ptr<Storage> storage_;
  intrusive_ptr<VersionCounter> version_;
  DType dtype_ = DType::f32;
  bool contiguous_ = true;
  int64_t offset_ = 0;
  int64_t numel_ = 0;
  Shape shape_;
  Strides strides_;
};

template <class X>
struct ValuesAndIndices {
  X values;        ///< those found
  Tensor indices;  ///< i64: the index of each along the dimension
};

/// A tensor in error messages: "(2, 128, 512) f32 on cpu". Holds a reference and makes the text on
/// conversion, so that checks that pass cost nothing.
class Description {
 public:
  /// `tensor` must outlive the description.
  explicit Description(const Tensor& tensor) : tensor_(tensor) {}
  /// Shape, dtype and device; "an undefined tensor" for one.
  operator std::string() const;

 private:
  const Tensor& tensor_;
};
/// The tensor as an argument of `text` and `require`: `require<ShapeError>(ok, "got ", describe(x))`.
inline Description describe(const Tensor& tensor) {
  return Description(tensor);
}
/// The description's text.
inline std::string to_string(const Description& description) {
  return description;
}

template <class Value>
Tensor Tensor::from(std::span<const Value> values, const Shape& shape) {
  require<ShapeError>(static_cast<int64_t>(values.size()) == shape.numel(), "Tensor::from: shape ", shape,
                      " takes ", shape.numel(), " values, got ", values.size());
  Tensor tensor = empty(shape, dtype_of<Value>);
  Value* out = tensor.data<Value>();
  for (const Value value : values) *out++ = value;
  return tensor;
}

}  // namespace tessera
