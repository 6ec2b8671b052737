#include "data/datasets/dataset.h"

#include <utility>

#include "tensor/error.h"

namespace tessera::data {

TensorDataset::TensorDataset(Tensor x, Tensor y)
    : TensorDataset(Record{{"x", std::move(x)}, {"y", std::move(y)}}) {}

TensorDataset::TensorDataset(Record columns) : columns_(std::move(columns)) {
  const std::vector<Field> fields = columns_.fields();
  require<ValueError>(!fields.empty() && columns_.lists().empty(), "TensorDataset: expected tensors, got ",
                      columns_.describe_names());
  for (const Field& field : fields)
    require<ShapeError>(field.value.ndim() > 0 && fields[0].value.ndim() > 0 &&
                            field.value.size(0) == fields[0].value.size(0),
                        "TensorDataset: expected ", fields[0].name, " and ", field.name,
                        " with the same first extent, got ", describe(fields[0].value), " and ",
                        describe(field.value));
  size_ = fields[0].value.size(0);
}

Example TensorDataset::get(int64_t index) const {
  return columns_.map([index](std::string_view, const Tensor& column) { return column.select(0, index); });
}

}  // namespace tessera::data
