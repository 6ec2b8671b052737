#include "tensor/printing/format.h"

#include <algorithm>
#include <functional>
#include <ostream>
#include <vector>

#include "tensor/printing/float_format.h"
#include "tensor/types/dtype_switch.h"

namespace tessera {
namespace {

using Word = std::function<std::string(int64_t offset)>;  // the element at an offset of the tensor

template <class T>
double number_at(const T* numbers, int64_t offset) {
  if constexpr (sizeof(T) == 2)
    return static_cast<float>(numbers[offset]);
  else
    return static_cast<double>(numbers[offset]);
}

/// Lays a tensor's elements out in nested brackets, as numpy's _formatArray.
class Layout {
 public:
  Layout(const Tensor& tensor, const FormatOptions& options)
      : tensor_(tensor), options_(options), summarized_(tensor.numel() > options.threshold) {}

  /// Calls `visit` with the offset of every element that is printed.
  void for_each_shown(int dim, int64_t offset, const std::function<void(int64_t)>& visit) const {
    if (dim == tensor_.rank()) return visit(offset);
    const int64_t n = tensor_.shape()[dim];
    for (int64_t i = 0; i < n; ++i) {
      if (cut(dim) && i == options_.edge_items) i = n - options_.edge_items;
      for_each_shown(dim + 1, offset + i * tensor_.strides()[dim], visit);
    }
  }

  std::string print(int dim, int64_t offset, const std::string& indent, int64_t width,
                    const Word& word) const {
    if (dim == tensor_.rank()) return word(offset);
    return "[" +
           (dim + 1 == tensor_.rank() ? row(offset, indent, width, word)
                                      : rows(dim, offset, indent, width, word)) +
           "]";
  }

 private:
  bool cut(int dim) const { return summarized_ && tensor_.shape()[dim] > 2 * options_.edge_items; }

  /// The last dimension: words in lines of at most `width` columns, less the closing bracket.
  std::string row(int64_t offset, const std::string& indent, int64_t width, const Word& word) const {
    const int last = tensor_.rank() - 1;
    const int64_t n = tensor_.shape()[last];
    std::string text, line = indent;
    const auto add = [&](const std::string& piece) {
      const bool full = static_cast<int64_t>(line.size() + piece.size()) > width - 1;
      if (full && line.size() > indent.size()) {
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
        line = indent;
      }
      line += piece;
    };
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) line += ' ';
      if (cut(last) && i == options_.edge_items) {
        add("...");
        line += ' ';
        i = n - options_.edge_items;
      }
      add(word(offset + i * tensor_.strides()[last]));
    }
    return (text + line).substr(indent.size());
  }

  /// The other dimensions: one below the other, with an empty line more for each dimension inside.
  std::string rows(int dim, int64_t offset, const std::string& indent, int64_t width,
                   const Word& word) const {
    const int64_t n = tensor_.shape()[dim];
    const std::string separator = std::string(static_cast<size_t>(tensor_.rank() - dim - 1), '\n') + indent;
    std::string text;
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) text += separator;
      if (cut(dim) && i == options_.edge_items) {
        text += "..." + separator;
        i = n - options_.edge_items;
      }
      text += print(dim + 1, offset + i * tensor_.strides()[dim], indent + " ", width - 1, word);
    }
    return text;
  }

  const Tensor& tensor_;
  const FormatOptions& options_;
  bool summarized_;
};

template <class T>
Word words_of(const Tensor& tensor, const Layout& layout, const FormatOptions& options) {
  const T* numbers = tensor.data<T>();
  if constexpr (std::is_same_v<T, bool>) {
    const bool alone = tensor.rank() == 0;
    return [=](int64_t at) { return std::string(numbers[at] ? (alone ? "True" : " True") : "False"); };
  } else if constexpr (std::is_integral_v<T>) {
    size_t width = 0;
    layout.for_each_shown(0, 0,
                          [&](int64_t at) { width = std::max(width, std::to_string(numbers[at]).size()); });
    return [=](int64_t at) {
      const std::string text = std::to_string(numbers[at]);
      return std::string(width - text.size(), ' ') + text;
    };
  } else {
    std::vector<double> shown;
    layout.for_each_shown(0, 0, [&](int64_t at) { shown.push_back(number_at(numbers, at)); });
    const FloatFormat format(shown, tensor.dtype(), options.precision, options.suppress_small);
    return [=](int64_t at) { return format(number_at(numbers, at)); };
  }
}

}  // namespace

std::string format_numbers(const Tensor& tensor, const FormatOptions& options) {
  if (tensor.numel() == 0) return "[]";
  const Layout layout(tensor, options);
  return with_any(tensor.dtype(), [&]<class T>(TypeTag<T>) {
    return layout.print(0, 0, " ", options.line_width, words_of<T>(tensor, layout, options));
  });
}

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_cpu()) return describe(tensor);
  return text(format_numbers(tensor), "\n", describe(tensor));
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return stream << to_string(tensor);
}

}  // namespace tessera
