#include "tensor/printing/format.h"

#include <algorithm>
#include <functional>
#include <ostream>
#include <vector>

#include "tensor/printing/float_format.h"
#include "tensor/types/dtype_switch.h"

namespace tessera {
namespace {

using ElementText = std::function<std::string(int64_t offset)>;  // of the element at an offset of the tensor

template <class T>
double value_at(const T* values, int64_t offset) {
  if constexpr (sizeof(T) == 2)
    return static_cast<float>(values[offset]);
  else
    return static_cast<double>(values[offset]);
}

/// Prints a tensor's elements in nested brackets, as numpy's _formatArray does.
class Layout {
 public:
  Layout(const Tensor& tensor, const FormatOptions& options)
      : tensor_(tensor), options_(options), summarized_(tensor.numel() > options.threshold) {}

  /// Calls `visit` with the offset of every element that is printed.
  void for_each_printed(int dim, int64_t offset, const std::function<void(int64_t)>& visit) const {
    if (dim == tensor_.ndim()) return visit(offset);
    const int64_t n = tensor_.shape()[dim];
    for (int64_t i = 0; i < n; ++i) {
      if (is_summarized(dim) && i == options_.edge_items) i = n - options_.edge_items;
      for_each_printed(dim + 1, offset + i * tensor_.strides()[dim], visit);
    }
  }

  std::string print(int dim, int64_t offset, const std::string& indent, int64_t width,
                    const ElementText& element_text) const {
    if (dim == tensor_.ndim()) return element_text(offset);
    return "[" +
           (dim + 1 == tensor_.ndim() ? row(offset, indent, width, element_text)
                                      : rows(dim, offset, indent, width, element_text)) +
           "]";
  }

 private:
  bool is_summarized(int dim) const { return summarized_ && tensor_.shape()[dim] > 2 * options_.edge_items; }

  /// The last dimension: elements in lines of at most `width` columns, closing bracket included.
  std::string row(int64_t offset, const std::string& indent, int64_t width,
                  const ElementText& element_text) const {
    const int last = tensor_.ndim() - 1;
    const int64_t n = tensor_.shape()[last];
    std::string text, line = indent;
    const auto add = [&](const std::string& element) {
      const bool full = static_cast<int64_t>(line.size() + element.size()) > width - 1;
      if (full && line.size() > indent.size()) {
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
        line = indent;
      }
      line += element;
    };
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) line += ' ';
      if (is_summarized(last) && i == options_.edge_items) {
        add("...");
        line += ' ';
        i = n - options_.edge_items;
      }
      add(element_text(offset + i * tensor_.strides()[last]));
    }
    return (text + line).substr(indent.size());
  }

  /// Another dimension: one index below the other, with an empty line more for each dimension inside.
  std::string rows(int dim, int64_t offset, const std::string& indent, int64_t width,
                   const ElementText& element_text) const {
    const int64_t n = tensor_.shape()[dim];
    const std::string separator = std::string(static_cast<size_t>(tensor_.ndim() - dim - 1), '\n') + indent;
    std::string text;
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) text += separator;
      if (is_summarized(dim) && i == options_.edge_items) {
        text += "..." + separator;
        i = n - options_.edge_items;
      }
      text += print(dim + 1, offset + i * tensor_.strides()[dim], indent + " ", width - 1, element_text);
    }
    return text;
  }

  const Tensor& tensor_;
  const FormatOptions& options_;
  bool summarized_;
};

template <class T>
ElementText element_text_of(const Tensor& tensor, const Layout& layout, const FormatOptions& options) {
  const T* values = tensor.data<T>();
  if constexpr (std::is_same_v<T, bool>) {
    const bool alone = tensor.ndim() == 0;
    return [=](int64_t at) { return std::string(values[at] ? (alone ? "True" : " True") : "False"); };
  } else if constexpr (std::is_integral_v<T>) {
    size_t width = 0;
    layout.for_each_printed(0, 0,
                            [&](int64_t at) { width = std::max(width, std::to_string(values[at]).size()); });
    return [=](int64_t at) {
      const std::string text = std::to_string(values[at]);
      return std::string(width - text.size(), ' ') + text;
    };
  } else {
    std::vector<double> printed;
    layout.for_each_printed(0, 0, [&](int64_t at) { printed.push_back(value_at(values, at)); });
    const FloatFormat format(printed, tensor.dtype(), options.precision, options.suppress_small);
    return [=](int64_t at) { return format(value_at(values, at)); };
  }
}

}  // namespace

std::string format_values(const Tensor& tensor, const FormatOptions& options) {
  if (tensor.numel() == 0) return "[]";
  if (tensor.device().is_cuda()) return format_values(tensor.to(cpu()), options);
  const Layout layout(tensor, options);
  return with_any(tensor.dtype(), [&]<class T>(TypeTag<T>) {
    return layout.print(0, 0, " ", options.line_width, element_text_of<T>(tensor, layout, options));
  });
}

std::string to_string(const Tensor& tensor) {
  const bool has_values = tensor.defined() && (tensor.device().is_cpu() || tensor.device().is_cuda());
  if (!has_values) return describe(tensor);
  return text(format_values(tensor), "\n", describe(tensor));
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return stream << to_string(tensor);
}

std::ostream& operator<<(std::ostream& stream, DType dtype) {
  return stream << to_string(dtype);
}

std::ostream& operator<<(std::ostream& stream, Device device) {
  return stream << to_string(device);
}

}  // namespace tessera
