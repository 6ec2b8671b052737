// What single descriptors refuse, each with the status of the first call that fails.
#include "tests/cuda_sim/libraries/cudnn_probe/table.h"

namespace cudnn_graphs {
namespace {

using Change = std::function<void(Descriptor&)>;

/// A tensor's descriptor with a change, then finalized.
TableRow tensor_row(const std::string& name, const Change& change) {
  return {"tensor " + name,
          [=](Graph&) {
            Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
            t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{1});
            t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
            t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, Sizes{2, 8, 6, 6});
            t.set(CUDNN_ATTR_TENSOR_STRIDES, Sizes{288, 36, 6, 1});
            t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16});
            change(t);
            t.finalize();
          },
          false};
}

TableRow with(const std::string& name, cudnnBackendDescriptorType_t type, const Change& change) {
  return {name,
          [=](Graph&) {
            Descriptor d(type, "descriptor");
            change(d);
            d.finalize();
          },
          false};
}

}  // namespace

std::vector<TableRow> descriptor_rows() {
  std::vector<TableRow> rows;
  const auto tensor = [&](const std::string& name, const Change& change) {
    rows.push_back(tensor_row(name, change));
  };
  tensor("as it should be", [](Descriptor&) {});
  tensor("alignment 3", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{3}); });
  tensor("alignment 0", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{0}); });
  tensor("alignment 2 of f32", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{2}); });
  tensor("alignment -4", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{-4}); });
  tensor("no extent", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, Sizes{2, 0, 6, 6}); });
  tensor("negative extent", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, Sizes{2, -1, 6, 6}); });
  tensor("stride 0", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_STRIDES, Sizes{0, 36, 6, 1}); });
  tensor("negative stride", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_STRIDES, Sizes{288, 36, 6, -1}); });
  tensor("fewer strides", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_STRIDES, Sizes{36, 6, 1}); });
  tensor("overlapping strides", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_STRIDES, Sizes{36, 6, 1, 1}); });
  tensor("9 dimensions", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, Sizes(9, 1)); });
  tensor("attribute of another kind",
         [](Descriptor& t) { t.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT); });
  tensor("attribute of another type", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, 1.0f); });
  tensor("attribute 9999",
         [](Descriptor& t) { t.set(static_cast<cudnnBackendAttributeName_t>(9999), int64_t{1}); });
  tensor("two numbers", [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, Sizes{1, 2}); });
  tensor("no values",
         [](Descriptor& t) { t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, nullptr); });
  tensor("set after finalize", [](Descriptor& t) {
    t.finalize();
    t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{2});
  });
  tensor("finalized twice", [](Descriptor& t) { t.finalize(); });
  tensor("read before finalize", [](Descriptor& t) {
    int64_t value = 0, count = 0;
    require(
        cudnnBackendGetAttribute(t.get(), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &count, &value),
        "get");
  });
  tensor("read with another type", [](Descriptor& t) {
    t.finalize();
    int64_t value = 0, count = 0;
    require(
        cudnnBackendGetAttribute(t.get(), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, 1, &count, &value),
        "get");
  });
  tensor("virtual and by value", [](Descriptor& t) {
    t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    t.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  });
  rows.push_back(with("tensor empty", CUDNN_BACKEND_TENSOR_DESCRIPTOR, [](Descriptor&) {}));
  rows.push_back(with("tensor without strides", CUDNN_BACKEND_TENSOR_DESCRIPTOR, [](Descriptor& t) {
    t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{1});
    t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
    t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, Sizes{2, 8, 6, 6});
    t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16});
  }));
  for (const auto& [name, type] :
       {std::pair{"pointwise", CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
        {"convolution sizes", CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR},
        {"matmul how", CUDNN_BACKEND_MATMUL_DESCRIPTOR},
        {"reduction how", CUDNN_BACKEND_REDUCTION_DESCRIPTOR},
        {"random how", CUDNN_BACKEND_RNG_DESCRIPTOR},
        {"resample how", CUDNN_BACKEND_RESAMPLE_DESCRIPTOR},
        {"operation pointwise", CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR},
        {"operation convolution", CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR},
        {"operation data gradient", CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR},
        {"operation filter gradient", CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR},
        {"operation matmul", CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR},
        {"operation reduction", CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR},
        {"operation norm forward", CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR},
        {"operation norm backward", CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR},
        {"operation reshape", CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR},
        {"operation random", CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR},
        {"operation graph", CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
        {"heuristics", CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR},
        {"engine", CUDNN_BACKEND_ENGINE_DESCRIPTOR},
        {"plan", CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR},
        {"variant pack", CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR},
        {"device properties", CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
        {"kind 200", static_cast<cudnnBackendDescriptorType_t>(200)}})
    rows.push_back(with(std::string("empty ") + name, type, [](Descriptor&) {}));
  rows.push_back({"unfinalized tensor in an operation", [](Graph& g) {
                    Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
                    Descriptor& o = g.operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "reshape");
                    o.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, t);
                  }});
  rows.push_back({"matmul description as a tensor", [](Graph& g) {
                    Descriptor& how = g.part(CUDNN_BACKEND_MATMUL_DESCRIPTOR, "matmul description");
                    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
                    how.finalize();
                    Descriptor& o = g.operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "reshape");
                    o.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, how);
                  }});
  rows.push_back({"two tensors of one number", [](Graph& g) {
                    Descriptor other(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
                    other.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{1});
                    other.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
                    other.set(CUDNN_ATTR_TENSOR_DIMENSIONS, Sizes{2, 8, 6, 6});
                    other.set(CUDNN_ATTR_TENSOR_STRIDES, Sizes{288, 36, 6, 1});
                    other.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16});
                    other.finalize();
                    const Id x = g.tensor({2, 8, 6, 6});
                    Descriptor& o = g.operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "reshape");
                    o.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, g[x]);
                    o.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, other);
                    o.finalize();
                  }});
  return rows;
}

}  // namespace cudnn_graphs
