#include "io/formats/pickle.h"

#include <fmt/format.h>

#include <bit>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>

#include "io/byte_reader.h"
#include "io/formats/pickle_values.h"
#include "io/quote.h"

namespace talon {
namespace {

using namespace pickled;

// Opcodes of the pickle protocols 0 to 2 that torch.save uses for state dicts and what training
// scripts put beside them (CPython, Lib/pickletools.py).
enum class Op : std::uint8_t {
  mark = '(',
  stop = '.',
  binfloat = 'G',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  none = 'N',
  binpersid = 'Q',
  reduce = 'R',
  binunicode = 'X',
  empty_list = ']',
  append = 'a',
  build = 'b',
  global = 'c',
  appends = 'e',
  binget = 'h',
  long_binget = 'j',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  tuple = 't',
  setitems = 'u',
  empty_dict = '}',
  empty_tuple = ')',
  proto = 0x80,
  newobj = 0x81,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8A,
};

class Machine {
 public:
  Machine(std::span<const std::byte> pickle, const std::string& doing) : reader_(pickle, doing) {}

  std::vector<PickledTensor> run() {
    while (true) {
      const auto op = static_cast<Op>(reader_.take<std::uint8_t>("a pickle opcode"));
      if (op == Op::stop) break;
      step(op);
    }
    return collect(pop());
  }

 private:
  void step(Op op) {
    switch (op) {
      case Op::proto:
        return check_protocol();
      case Op::mark:
        return marks_.push_back(stack_.size());
      case Op::none:
        return push(None{});
      case Op::newtrue:
        return push(true);
      case Op::newfalse:
        return push(false);
      case Op::binint:
        return push(std::int64_t{reader_.take<std::int32_t>("an integer")});
      case Op::binint1:
        return push(std::int64_t{reader_.take<std::uint8_t>("an integer")});
      case Op::binint2:
        return push(std::int64_t{reader_.take<std::uint16_t>("an integer")});
      case Op::long1:
        return push(take_long());
      case Op::binfloat:
        return push(take_big_endian_double());
      case Op::binunicode:
        return push(reader_.take_text(reader_.take<std::uint32_t>("a text size"), "a text"));
      case Op::empty_tuple:
        return push(Tuple{});
      case Op::tuple1:
        return push_tuple(1);
      case Op::tuple2:
        return push_tuple(2);
      case Op::tuple3:
        return push_tuple(3);
      case Op::tuple:
        return push(Tuple{pop_to_mark()});
      case Op::empty_list:
        return push(List{});
      case Op::append:
        return append({pop()});
      case Op::appends:
        return append(pop_to_mark());
      case Op::empty_dict:
        return push(Dict{});
      case Op::setitem:
        return set_items(pop_many(2));
      case Op::setitems:
        return set_items(pop_to_mark());
      case Op::binput:
        return memoize(reader_.take<std::uint8_t>("a memo index"));
      case Op::long_binput:
        return memoize(reader_.take<std::uint32_t>("a memo index"));
      case Op::binget:
        return recall(reader_.take<std::uint8_t>("a memo index"));
      case Op::long_binget:
        return recall(reader_.take<std::uint32_t>("a memo index"));
      case Op::global:
        return push_global();
      case Op::binpersid:
        return push_storage(pop());
      case Op::reduce:
        return reduce();
      case Op::newobj:
        return make_object();
      case Op::build:
        return build();
      case Op::stop:
        break;
    }
    refuse("an opcode that state dicts use", fmt::format("0x{:02x}", static_cast<unsigned>(op)));
  }

  [[noreturn]] void refuse(std::string_view expected, std::string_view found) const {
    fail("{}: pickle byte {}: expected {}, found {}", reader_.doing(), reader_.position(), expected,
         found);
  }

  void push(Value value) {
    constexpr std::size_t kMostValues = 1u << 21;  // those of a hundred thousand tensors
    if (arena_.size() == kMostValues) {
      refuse(fmt::format("at most {} values", kMostValues), "more");
    }
    stack_.push_back(static_cast<Ref>(arena_.size()));
    arena_.push_back(std::move(value));
  }

  Ref pop() {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) refuse("a value on the stack", "none");
    const Ref top = stack_.back();
    stack_.pop_back();
    return top;
  }

  std::vector<Ref> pop_many(std::size_t count) {
    std::vector<Ref> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) refuse("a mark on the stack", "none");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Ref> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  // The value on top of the stack, which must be of kind T.
  template <typename T>
  T& top(std::string_view expected) {
    const Ref ref = pop();
    stack_.push_back(ref);
    return as<T>(ref, expected);
  }

  template <typename T>
  T& as(Ref ref, std::string_view expected) {
    T* value = std::get_if<T>(&arena_[ref]);
    if (value == nullptr) refuse(expected, kind_of(arena_[ref]));
    return *value;
  }

  void check_protocol() {
    const auto protocol = reader_.take<std::uint8_t>("the pickle protocol");
    if (protocol != 2) refuse("pickle protocol 2", fmt::to_string(protocol));
  }

  std::int64_t take_long() {
    const auto size = reader_.take<std::uint8_t>("an integer size");
    if (size > 8) refuse("an integer of at most 8 bytes", fmt::to_string(size));
    const std::string_view bytes = reader_.take_text(size, "an integer");
    std::uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~std::uint64_t{0} : 0;
    for (std::size_t i = size; i-- > 0;) value = (value << 8) | static_cast<std::uint8_t>(bytes[i]);
    return static_cast<std::int64_t>(value);
  }

  double take_big_endian_double() {
    return std::bit_cast<double>(__builtin_bswap64(reader_.take<std::uint64_t>("a float")));
  }

  void push_tuple(std::size_t count) { push(Tuple{pop_many(count)}); }

  bool top_is_foreign() {
    const Ref ref = pop();
    stack_.push_back(ref);
    return std::holds_alternative<Foreign>(arena_[ref]);
  }

  void append(const std::vector<Ref>& items) {
    if (top_is_foreign()) return;
    auto& list = top<List>("a list to append to").items;
    list.insert(list.end(), items.begin(), items.end());
  }

  void set_items(const std::vector<Ref>& items) {
    if (items.size() % 2 != 0) refuse("keys and values in pairs", "one too many");
    if (top_is_foreign()) return;
    auto& dict = top<Dict>("a dict to set items of").items;
    for (std::size_t i = 0; i < items.size(); i += 2) dict.emplace_back(items[i], items[i + 1]);
  }

  void memoize(std::uint32_t index) {
    const Ref ref = pop();
    stack_.push_back(ref);
    memo_[index] = ref;
  }

  void recall(std::uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) refuse("a memo index that was set", fmt::to_string(index));
    stack_.push_back(found->second);
  }

  std::string_view take_line() {
    constexpr std::size_t kLongest = 256;
    std::string_view line = reader_.take_text(0, "a name");
    for (std::size_t size = 0; size < kLongest; ++size) {
      if (reader_.take<char>("a name") == '\n') return {line.data(), size};
    }
    refuse("a name of at most 256 bytes", "a longer one");
  }

  void push_global() {
    const std::string_view module = take_line();
    const std::string_view name = take_line();
    auto value = find_global(module, name);
    push(value ? *std::move(value) : Foreign{fmt::format("{}.{}", module, name)});
  }

  // An object of a known class is made by reduce() alone.
  void make_object() {
    pop();
    const Ref type = pop();
    as<Foreign>(type, "a class");
    stack_.push_back(type);
  }

  // ('storage', class, key, device, elements)
  void push_storage(Ref ref) {
    const auto items = as<Tuple>(ref, "a tuple as persistent id").items;
    if (items.size() != 5 || as<std::string_view>(items[0], "a text") != "storage") {
      refuse("('storage', class, key, device, elements) as persistent id", "another tuple");
    }
    as<std::string_view>(items[2], "a text as storage key");
    push(Storage{as<StorageClass>(items[1], "a storage class").type, items[2],
                 static_cast<std::uint64_t>(as_size(items[4]))});
  }

  void reduce() {
    const Ref arguments_ref = pop();
    const Ref function_ref = pop();
    if (std::holds_alternative<Foreign>(arena_[function_ref])) {
      stack_.push_back(function_ref);
      return;
    }
    const std::vector<Ref> arguments = as<Tuple>(arguments_ref, "a tuple of arguments").items;
    switch (as<Callable>(function_ref, "a function to call")) {
      case Callable::ordered_dict:
        return make_dict(arguments);
      case Callable::rebuild_tensor:
        return rebuild_tensor(arguments);
      case Callable::rebuild_parameter:
        return rebuild_parameter(arguments);
    }
  }

  void make_dict(const std::vector<Ref>& arguments) {
    if (!arguments.empty()) refuse("OrderedDict()", "arguments");
    push(Dict{});
  }

  // (storage, offset, shape, strides, requires_grad, hooks[, metadata])
  void rebuild_tensor(const std::vector<Ref>& arguments) {
    if (arguments.size() < 6 || arguments.size() > 7) {
      refuse("6 or 7 arguments of _rebuild_tensor_v2", fmt::to_string(arguments.size()));
    }
    as<Storage>(arguments[0], "a storage");
    Tensor tensor{arguments[0], static_cast<std::uint64_t>(as_size(arguments[1])),
                  as_sizes(arguments[2]), as_sizes(arguments[3])};
    if (tensor.shape.size() != tensor.strides.size()) {
      refuse("as many strides as dimensions",
             fmt::format("{} and {}", tensor.strides.size(), tensor.shape.size()));
    }
    push(std::move(tensor));
  }

  // (tensor, requires_grad, hooks)
  void rebuild_parameter(const std::vector<Ref>& arguments) {
    if (arguments.size() != 3) {
      refuse("3 arguments of _rebuild_parameter", fmt::to_string(arguments.size()));
    }
    as<Tensor>(arguments[0], "a tensor");
    stack_.push_back(arguments[0]);
  }

  // Attributes of the dict (`_metadata`: module versions) say nothing about the tensors.
  void build() {
    pop();
    if (!top_is_foreign()) top<Dict>("a dict to set attributes of");
  }

  std::int64_t as_size(Ref ref) {
    const auto value = as<std::int64_t>(ref, "an integer");
    if (value < 0) refuse("a number that is not negative", fmt::to_string(value));
    return value;
  }

  std::vector<std::int64_t> as_sizes(Ref ref) {
    constexpr std::size_t kMostDimensions = 16;
    const std::vector<Ref> items = as<Tuple>(ref, "a tuple of sizes").items;
    if (items.size() > kMostDimensions) {
      refuse("at most 16 dimensions", fmt::to_string(items.size()));
    }
    std::vector<std::int64_t> sizes;
    for (const Ref item : items) sizes.push_back(as_size(item));
    return sizes;
  }

  // The dict of tensors: `root`, or what training scripts put beside optimizers and options, which
  // stay unread.
  const Dict& weights_of(Ref root) {
    const Dict& dict = as<Dict>(root, "a dict of tensors");
    const Dict* inner = nullptr;
    for (const auto& [key, value] : dict.items) {
      if (std::holds_alternative<Tensor>(arena_[value])) return dict;
      const auto* name = std::get_if<std::string_view>(&arena_[key]);
      const bool named =
          name != nullptr && (*name == "model" || *name == "module" || *name == "state_dict");
      const Dict* found = named ? std::get_if<Dict>(&arena_[value]) : nullptr;
      if (found != nullptr && inner == nullptr) inner = found;
    }
    return inner != nullptr ? *inner : dict;
  }

  std::vector<PickledTensor> collect(Ref root) {
    std::vector<PickledTensor> tensors;
    std::unordered_set<std::string_view> names;
    for (const auto& [key, value] : weights_of(root).items) {
      const auto name = as<std::string_view>(key, "a text as tensor name");
      if (!names.insert(name).second) {
        fail("{}: tensor {}: expected one of that name, found two", reader_.doing(), quote(name));
      }
      const Tensor* tensor = std::get_if<Tensor>(&arena_[value]);
      if (tensor == nullptr) {
        fail("{}: entry {}: expected a tensor, found {}", reader_.doing(), quote(name),
             kind_of(arena_[value]));
      }
      const Storage& storage = std::get<Storage>(arena_[tensor->storage]);
      tensors.push_back({std::string(name), storage.type,
                         std::get<std::string_view>(arena_[storage.key]), storage.elements,
                         tensor->offset, tensor->shape, tensor->strides});
    }
    return tensors;
  }

  ByteReader reader_;
  std::vector<Value> arena_;
  std::vector<Ref> stack_;
  std::vector<std::size_t> marks_;  // stack heights
  std::unordered_map<std::uint32_t, Ref> memo_;
};

}  // namespace

std::vector<PickledTensor> read_state_dict(std::span<const std::byte> pickle,
                                           const std::string& doing) {
  constexpr std::size_t kLargestPickle = 16u << 20;  // a hundred times that of a 70B model
  if (pickle.size() > kLargestPickle) {
    fail("{}: expected a pickle of at most {} bytes, found {}", doing, kLargestPickle,
         pickle.size());
  }
  return Machine(pickle, doing).run();
}

}  // namespace talon
