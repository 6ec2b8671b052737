#include "tests/ops/golden.h"

#include <json/json.h>

#include <limits>
#include <map>
#include <set>

#include "tensor/io/safetensors.h"

namespace tessera::test {
namespace {

/// The golden file of a family, which is read once.
const io::SafetensorsFile& family_file(const std::string& family) {
  static std::map<std::string, io::SafetensorsFile> files;
  auto found = files.find(family);
  if (found == files.end()) {
    const std::string path = std::string(TESSERA_TEST_DATA_DIR) + "/ops/goldens/" + family + ".safetensors";
    found = files.try_emplace(family, path).first;
  }
  return found->second;
}

Tensor read_if_there(const io::SafetensorsFile& file, const std::string& name) {
  return file.find(name) ? file.read(name) : Tensor();
}

OpCase read_case(const io::SafetensorsFile& file, const std::string& key, const std::string& arguments) {
  OpCase c{.name = key.substr(key.find('/') + 1), .arguments = Arguments(arguments)};
  for (size_t i = 0;; ++i) {
    const Tensor input = read_if_there(file, text(key, "/in", i));
    if (!input.defined()) break;
    c.inputs.push_back(input);
    c.gradients.push_back(read_if_there(file, text(key, "/grad", i)));
  }
  const bool single = file.find(key + "/out") != nullptr;
  for (size_t i = 0;; ++i) {
    const std::string suffix = single ? "" : std::to_string(i);
    const Tensor output = single && i > 0 ? Tensor() : read_if_there(file, key + "/out" + suffix);
    if (!output.defined()) break;
    c.outputs.push_back(output);
    c.grad_outputs.push_back(read_if_there(file, key + "/dout" + suffix));
  }
  bool differentiated = false;
  for (const Tensor& gradient : c.grad_outputs) differentiated = differentiated || gradient.defined();
  if (!differentiated) c.grad_outputs.clear();
  return c;
}

}  // namespace

Arguments::Arguments(const std::string& json) {
  const std::unique_ptr<Json::CharReader> reader(Json::CharReaderBuilder().newCharReader());
  auto object = std::make_shared<Json::Value>();
  std::string problem;
  const bool read = reader->parse(json.data(), json.data() + json.size(), object.get(), &problem);
  require<ValueError>(read && object->isObject(), "arguments: expected a JSON object, got ", json, problem);
  object_ = std::move(object);
}

const Json::Value& Arguments::value(const std::string& name) const {
  require<ValueError>(has(name), "arguments: there is no ", name);
  return (*object_)[name];
}

bool Arguments::has(const std::string& name) const {
  return object_->isMember(name) && !(*object_)[name].isNull();
}

int64_t Arguments::integer(const std::string& name) const {
  require<ValueError>(value(name).isInt64(), "arguments: ", name, " is not an integer");
  return value(name).asInt64();
}

bool Arguments::flag(const std::string& name) const {
  require<ValueError>(value(name).isBool(), "arguments: ", name, " is not true or false");
  return value(name).asBool();
}

double Arguments::real(const std::string& name) const {
  const Json::Value& found = value(name);
  if (found.isString() && found.asString() == "inf") return std::numeric_limits<double>::infinity();
  require<ValueError>(found.isNumeric(), "arguments: ", name, " is not a number");
  return found.asDouble();
}

std::string Arguments::text(const std::string& name) const {
  require<ValueError>(value(name).isString(), "arguments: ", name, " is not text");
  return value(name).asString();
}

std::vector<int64_t> Arguments::integers(const std::string& name) const {
  require<ValueError>(value(name).isArray(), "arguments: ", name, " is not a list");
  std::vector<int64_t> list;
  for (const Json::Value& entry : value(name)) list.push_back(entry.asInt64());
  return list;
}

std::vector<double> Arguments::reals(const std::string& name) const {
  require<ValueError>(value(name).isArray(), "arguments: ", name, " is not a list");
  std::vector<double> list;
  for (const Json::Value& entry : value(name)) list.push_back(entry.asDouble());
  return list;
}

Shape Arguments::shape(const std::string& name) const {
  const std::vector<int64_t> list = integers(name);
  return Shape(std::span<const int64_t>(list));
}

std::vector<OpCase> golden_cases(const std::string& family, const std::string& op) {
  const io::SafetensorsFile& file = family_file(family);
  std::vector<OpCase> cases;
  for (const auto& [key, arguments] : file.metadata())
    if (key.starts_with(op + "/")) cases.push_back(read_case(file, key, arguments));
  require<ValueError>(!cases.empty(), file.path(), ": there is no case of ", op);
  return cases;
}

std::vector<std::string> golden_ops(const std::string& family) {
  std::set<std::string> names;
  for (const auto& [key, arguments] : family_file(family).metadata())
    names.insert(key.substr(0, key.find('/')));
  return {names.begin(), names.end()};
}

}  // namespace tessera::test
