#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "backend/backend.h"
#include "backend/cpu/test_matrices.h"
#include "core/error.h"

namespace talon {
namespace {

using cpu::random_matrix;
using cpu::random_rows;
using cpu::TestMatrix;

// The same cases on every backend. Values are compared with the reference's, each operation fed the same inputs
// (CheckingBackend); row-exactness is compared by bytes.

struct BackendCase {
  std::string name;
  CpuKernels kernels = CpuKernels::best;
  int activation_bits = 0;  // 0: the reference

  std::unique_ptr<Backend> make(int threads) const {
    if (activation_bits == 0) return make_reference_backend(threads);
    return make_cpu_backend(
        {.threads = threads, .kernels = kernels, .activation_bits = activation_bits});
  }
};

/// The largest difference allowed, as a part of the root mean square of the expected row.
struct Tolerance {
  static constexpr double kFloat32 = 2e-5;     // weights and activations in float32, sums in another order
  static constexpr double k16Bit = 6e-4;       // activations rounded to 1/65025 of their group's largest
  static constexpr double k8Bit = 0.12;        // ... to 1/127
  static constexpr double kHalfCache = 5e-3;   // keys and values on either side of a binary16 step
  static double linear(StorageType weight, int activation_bits) {
    const bool exact = weight == StorageType::f32 || weight == StorageType::f16 ||
                       weight == StorageType::bf16 || activation_bits == 0;
    return exact ? kFloat32 : activation_bits == 16 ? k16Bit : k8Bit;
  }
  static double attention(KvType cache) { return cache == KvType::f32 ? kFloat32 : kHalfCache; }
};

constexpr StorageType kAllTypes[] = {
    StorageType::f32,  StorageType::f16,  StorageType::bf16,   StorageType::q8_0,
    StorageType::q4_0, StorageType::q4_1, StorageType::q5_0,   StorageType::q5_1,
    StorageType::q2_k, StorageType::q3_k, StorageType::q4_k,   StorageType::q5_k,
    StorageType::q6_k, StorageType::iq4_nl, StorageType::iq4_xs, StorageType::iq2_xxs};

/// A backend with a few conveniences.
class Device {
 public:
  explicit Device(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
  Backend* operator->() { return backend_.get(); }
  Backend& backend() { return *backend_; }

  View zeros(int rows, int cols) {
    buffers_.push_back(backend_->allocate(rows, cols));
    return buffers_.back()->view();
  }
  View put(std::span<const float> values, int rows, int cols) {
    const View view = zeros(rows, cols);
    backend_->upload(values, view);
    return view;
  }
  View random(int rows, int cols, unsigned seed) {
    return put(random_rows(rows, cols, seed), rows, cols);
  }
  std::vector<float> get(const View& view) {
    std::vector<float> values(static_cast<std::size_t>(view.rows) *
                              static_cast<std::size_t>(view.cols));
    backend_->download(view, values);
    return values;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
};

bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class Conformance : public testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    try {
      GetParam().make(1);
    } catch (const UsageError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  Device plain(int threads = 2) { return Device(GetParam().make(threads)); }

  /// Runs `body` on a device whose every operation is compared with the reference.
  template <typename Body>
  void check(double tolerance, const std::string& what, Body&& body) {
    auto checking =
        make_checking_backend(GetParam().make(2), make_reference_backend(1), tolerance);
    CheckingBackend& watched = *checking;
    Device device(std::move(checking));
    body(device);
    for (const Mismatch& m : watched.mismatches()) {
      ADD_FAILURE() << what << " " << m.operation << " differs by " << m.largest_difference
                    << " where values are about " << m.scale;
    }
  }
};

TEST_P(Conformance, LinearOfEveryStoredTypeAndTransform) {
  for (const StorageType type : kAllTypes) {
    const TestMatrix first = random_matrix(type, 40, 512, 1), second = random_matrix(type, 17, 512, 2);
    check(Tolerance::linear(type, GetParam().activation_bits), std::string(name_of(type)),
          [&](Device& device) {
            const auto a = device->load_weight(first.stored, WeightLayout::as_stored);
            const auto b = device->load_weight(second.stored, WeightLayout::as_stored);
            for (const int rows : {1, 2, 7, 33}) {
              const View x = device.random(rows, 512, 3), wide = device.random(rows, 1024, 4);
              const View norm = device.random(1, 512, 5), bias = device.random(1, 17, 6);
              const View out = device.random(rows, 57, 7);
              const View halves[] = {out.col_range(0, 40), out.col_range(40, 17)};
              const Projection both[] = {{a.get(), halves[0]}, {b.get(), halves[1], bias, true}};
              device->linear({.input = x, .outputs = both});
              device->linear({.input = x,
                              .transform = InputTransform::rms_norm,
                              .norm = norm,
                              .norm_epsilon = 1e-5F,
                              .outputs = both});
              device->linear(
                  {.input = wide, .transform = InputTransform::silu_gate, .outputs = both});
            }
          });
  }
}

TEST_P(Conformance, LinearOfFloatsWithAnyNumberOfColumns) {
  for (const int cols : {1, 15, 48, 172, 288}) {
    const TestMatrix matrix = random_matrix(StorageType::f32, 21, cols, 1);
    check(Tolerance::kFloat32, fmt::format("{} columns", cols), [&](Device& device) {
      const auto weight = device->load_weight(matrix.stored, WeightLayout::as_stored);
      const Projection output[] = {{weight.get(), device.zeros(5, 21)}};
      device->linear({.input = device.random(5, cols, 2), .outputs = output});
    });
  }
}

TEST_P(Conformance, EmbeddingGivesTheStoredValuesOfEveryType) {
  for (const StorageType type : kAllTypes) {
    const TestMatrix table = random_matrix(type, 50, 256, 8);
    check(0, std::string(name_of(type)), [&](Device& device) {
      const auto weight = device->load_weight(table.stored, WeightLayout::as_stored);
      EXPECT_EQ(weight->rows, 50);
      EXPECT_TRUE(weight->exact);
      device->embed(*weight, std::vector<TokenId>{0, 49, 7, 7}, device.zeros(4, 256));
    });
  }
}

TEST_P(Conformance, RowsOfAWeightMayBeReordered) {
  const TestMatrix matrix = random_matrix(StorageType::q4_1, 48, 64, 9);
  std::vector<std::int32_t> order(48);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(10));
  StoredMatrix reordered = matrix.stored;
  reordered.row_order = order;
  Device device = plain();
  const auto as_stored = device->load_weight(matrix.stored, WeightLayout::as_stored);
  const auto weight = device->load_weight(reordered, WeightLayout::as_stored);
  const View expected = device.zeros(48, 64), found = device.zeros(48, 64);
  std::vector<TokenId> all(48);
  std::iota(all.begin(), all.end(), 0);
  device->embed(*as_stored, order, expected);
  device->embed(*weight, all, found);
  EXPECT_TRUE(same_bytes(device.get(expected), device.get(found)));
}

TEST_P(Conformance, RowWiseOperations) {
  check(Tolerance::kFloat32, "row-wise", [](Device& device) {
    for (const int rows : {1, 3, 40}) {
      for (const int cols : {1, 64, 300}) {
        const View a = device.random(rows, cols, 1), b = device.random(rows, cols, 2);
        const View out = device.zeros(rows, cols), weight = device.random(1, cols, 3);
        device->rms_norm(a, weight, 1e-5F, out);
        device->rms_norm(out, weight, 1e-6F, out);
        device->add(a, b, out);
        device->add(out, b, out);
        device->silu_gate(a, b, out);
        device->softmax(a, 1.0F, out);
        device->softmax(a, 0.3F, out);
        device->copy(a, out);
      }
    }
  });
}

TEST_P(Conformance, MovingRowsAndColumnsIsExact) {
  check(0, "moves", [](Device& device) {
    const View from = device.random(9, 70, 1), to = device.random(12, 100, 2);
    device->copy(from.col_range(3, 40), to.row_range(2, 9).col_range(51, 40));
    device->gather_rows(from, std::vector<std::int32_t>{8, 0, 0, 5},
                        to.row_range(0, 4).col_range(0, 70));
    device->scatter_rows(from.row_range(0, 3), std::vector<std::int32_t>{11, 1, 4},
                         to.col_range(10, 70));
  });
}

TEST_P(Conformance, ChoicesAreThoseOfTheReferenceWithTiesByIndex) {
  check(0, "choices", [](Device& device) {
    std::vector<float> values = random_rows(20, 1000, 11);
    for (float& value : values) value = std::round(value * 4);  // many ties
    const View x = device.put(values, 20, 1000);
    std::vector<TokenId> best(20), indices(20 * 37);
    std::vector<float> largest(20 * 37);
    device->argmax(x, best);
    device->top_k(x, 37, largest, indices);
    for (int row = 0; row < 20; ++row) {
      const auto r = static_cast<std::size_t>(row);
      EXPECT_EQ(best[r], indices[r * 37]);
      for (std::size_t i = 0; i < 37; ++i) {
        const auto index = static_cast<std::size_t>(indices[r * 37 + i]);
        EXPECT_EQ(largest[r * 37 + i], values[r * 1000 + index]);
      }
    }
  });
}

TEST_P(Conformance, ARowOfLinearHasTheSameBytesAloneAndAmongOthers) {
  constexpr int kMost = 70;
  for (const StorageType type : kAllTypes) {
    const TestMatrix matrix = random_matrix(type, 33, 512, 12);
    Device one = plain(1), two = plain(2);
    for (const auto transform :
         {InputTransform::none, InputTransform::rms_norm, InputTransform::silu_gate}) {
      const int width = transform == InputTransform::silu_gate ? 1024 : 512;
      const std::vector<float> input = random_rows(kMost, width, 13);
      const auto run = [&](Device& device, int first, int rows) {
        const auto weight = device->load_weight(matrix.stored, WeightLayout::as_stored);
        const View x = device.put(input, kMost, width), out = device.zeros(kMost, 33);
        const Projection output[] = {{weight.get(), out.row_range(first, rows)}};
        device->linear({.input = x.row_range(first, rows),
                        .transform = transform,
                        .norm = device.random(1, 512, 14),
                        .norm_epsilon = 1e-5F,
                        .outputs = output});
        return device.get(out.row_range(first, rows));
      };
      const std::vector<float> all = run(one, 0, kMost);
      for (const int rows : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64}) {
        const int first = kMost - rows;
        EXPECT_TRUE(same_bytes(run(two, first, rows), std::span(all).subspan(
                                                          static_cast<std::size_t>(first) * 33)))
            << name_of(type) << " " << rows << " rows";
      }
    }
  }
}

// Attention.

struct AttentionCase {
  std::string name;
  int heads = 4, kv_heads = 4, head_dim = 64;
  int window = 0;
  bool head_norms = false;
  KvType cache = KvType::f32;
};

const AttentionCase kAttentionCases[] = {
    {"plain"},
    {"three queries a key", 9, 3},
    {"eight queries a key", 32, 4},
    {"one key head", 4, 1, 128},
    {"small heads", 8, 4, 8},
    {"heads of 48", 6, 6, 48},
    {"window", 4, 2, 64, 50},
    {"window of one", 4, 2, 64, 1},
    {"head norms", 4, 2, 64, 0, true},
    {"binary16", 9, 3, 64, 0, false, KvType::f16},
    {"binary16 with all", 8, 2, 32, 33, true, KvType::f16},
};

/// Random rows on a random tree: a trunk of committed text, then branches.
struct Scene {
  static constexpr int kPages = 8;
  static constexpr int kRows = 330;   // rows 0 .. kTrunk - 1 are the trunk
  static constexpr int kTrunk = 300;
  std::vector<PageId> pages = {5, 2, 7, 0, 3, 1};
  std::vector<NodeId> parent;

  Scene() {
    std::mt19937 random(15);
    for (int i = 0; i < kRows; ++i) {
      const int back = i < kTrunk ? 1 : 1 + static_cast<int>(random() % 4);
      parent.push_back(i == 0 ? -1 : std::max(i - back, kTrunk - 1));
      if (i < kTrunk) parent.back() = i - 1;
    }
  }
  Slot slot(int position) const {
    return pages[static_cast<std::size_t>(position / kPageRows)] * kPageRows + position % kPageRows;
  }
  std::vector<int> path(int node) const {  // root to node
    std::vector<int> nodes;
    for (int n = node; n >= 0; n = parent[static_cast<std::size_t>(n)]) nodes.push_back(n);
    std::reverse(nodes.begin(), nodes.end());
    return nodes;
  }

  /// Rows [first, first + count): trunk rows in line, branch rows with the list of their ancestors past the trunk.
  AttentionLayout layout(int first, int count) const {
    AttentionLayout layout;
    layout.pages.push_back(pages);
    for (int node = first; node < first + count; ++node) {
      const std::vector<int> nodes = path(node);
      AttentionRow row;
      row.position = static_cast<int>(nodes.size()) - 1;
      row.slot = slot(node);
      row.contiguous = std::min(row.position + 1, kTrunk);
      row.extra_begin = static_cast<int>(layout.extra.size());
      for (int i = row.contiguous; i <= row.position; ++i) {
        layout.extra.push_back(slot(nodes[static_cast<std::size_t>(i)]));
      }
      layout.rows.push_back(row);
    }
    return layout;
  }
  /// One branch as plain decoding would lay it out.
  AttentionLayout chain(int first, int count) const {
    AttentionLayout layout;
    layout.pages.push_back(pages);
    for (int position = first; position < first + count; ++position) {
      layout.rows.push_back({.position = position, .slot = slot(position), .contiguous = position + 1});
    }
    return layout;
  }
};

/// Feeds rows of one scene to attention().
class Attention {
 public:
  Attention(Device& device, const AttentionCase& c) : device_(device), case_(c) {
    cache_ = device->allocate_kv({2, c.kv_heads, c.head_dim, Scene::kPages, c.cache});
    rope_ = device.put(rotations(c.head_dim), Scene::kRows, c.head_dim);
    q_norm_ = device.put(near_one(c.head_dim, 17), 1, c.head_dim);
    k_norm_ = device.put(near_one(c.head_dim, 18), 1, c.head_dim);
    q_ = random_rows(Scene::kRows, c.heads * c.head_dim, 19);
    for (float& value : q_) value *= 0.25F;  // scores of about one
    k_ = random_rows(Scene::kRows, c.kv_heads * c.head_dim, 20);
    v_ = random_rows(Scene::kRows, c.kv_heads * c.head_dim, 21);
  }
  KvStore& cache() { return *cache_; }

  /// Runs the rows of the scene named by `nodes`, placed by `layout`; [nodes, heads * head_dim].
  std::vector<float> run(const AttentionLayout& layout, const std::vector<int>& nodes) {
    const int rows = static_cast<int>(nodes.size());
    const View out = device_.zeros(rows, case_.heads * case_.head_dim);
    const View none;
    device_->attention({.q = pick(q_, case_.heads, nodes),
                        .k = pick(k_, case_.kv_heads, nodes),
                        .v = pick(v_, case_.kv_heads, nodes),
                        .out = out,
                        .cache = cache_.get(),
                        .layer = 1,
                        .layout = &layout,
                        .rope = rope_,
                        .q_norm = case_.head_norms ? q_norm_ : none,
                        .k_norm = case_.head_norms ? k_norm_ : none,
                        .norm_epsilon = 1e-6F,
                        .scale = 1.0F / std::sqrt(static_cast<float>(case_.head_dim)),
                        .window = case_.window});
    return device_.get(out);
  }
  std::vector<float> run(const Scene& scene, int first, int count) {
    std::vector<int> nodes(static_cast<std::size_t>(count));
    std::iota(nodes.begin(), nodes.end(), first);
    return run(scene.layout(first, count), nodes);
  }

 private:
  static std::vector<float> rotations(int head_dim) {
    std::vector<float> table;
    for (int position = 0; position < Scene::kRows; ++position) {
      for (int i = 0; i < head_dim; ++i) {
        const double angle = position * std::pow(100.0, -2.0 * (i % (head_dim / 2)) / head_dim);
        table.push_back(static_cast<float>(i < head_dim / 2 ? std::cos(angle) : std::sin(angle)));
      }
    }
    return table;
  }
  static std::vector<float> near_one(int count, unsigned seed) {
    std::vector<float> values = random_rows(1, count, seed);
    for (float& value : values) value = 1 + 0.1F * value;
    return values;
  }
  View pick(const std::vector<float>& from, int heads, const std::vector<int>& nodes) {
    const std::ptrdiff_t width = static_cast<std::ptrdiff_t>(heads) * case_.head_dim;
    std::vector<float> rows;
    for (const int node : nodes) {
      rows.insert(rows.end(), from.begin() + node * width, from.begin() + (node + 1) * width);
    }
    return device_.put(rows, static_cast<int>(nodes.size()), static_cast<int>(width));
  }

  Device& device_;
  const AttentionCase& case_;
  std::unique_ptr<KvStore> cache_;
  View rope_, q_norm_, k_norm_;
  std::vector<float> q_, k_, v_;
};

TEST_P(Conformance, AttentionOfPromptsAndTrees) {
  const Scene scene;
  for (const AttentionCase& c : kAttentionCases) {
    check(Tolerance::attention(c.cache), c.name, [&](Device& device) {
      Attention attention(device, c);
      attention.run(scene, 0, 200);
      for (int first = 200; first < Scene::kTrunk; first += 25) attention.run(scene, first, 25);
      attention.run(scene, Scene::kTrunk, Scene::kRows - Scene::kTrunk);
    });
  }
}

TEST_P(Conformance, ARowOfAttentionHasTheSameBytesAloneInAChunkAndInATree) {
  const Scene scene;
  for (const AttentionCase& c : kAttentionCases) {
    Device one = plain(1), two = plain(2);
    Attention whole(one, c), parts(two, c);
    const auto width = static_cast<std::size_t>(c.heads * c.head_dim);
    std::vector<float> expected = whole.run(scene, 0, Scene::kTrunk);
    const std::vector<float> tree = whole.run(scene, Scene::kTrunk, Scene::kRows - Scene::kTrunk);
    expected.insert(expected.end(), tree.begin(), tree.end());

    const int cuts[] = {0, 1, 3, 120, 128, 200, 201, Scene::kTrunk};
    for (std::size_t i = 0; i + 1 < std::size(cuts); ++i) {
      const auto found = parts.run(scene, cuts[i], cuts[i + 1] - cuts[i]);
      const auto from = static_cast<std::size_t>(cuts[i]) * width;
      EXPECT_TRUE(same_bytes(found, std::span(expected).subspan(from, found.size())))
          << c.name << " from row " << cuts[i];
    }
    for (int node = Scene::kTrunk; node < Scene::kRows; node += 3) {
      std::vector<int> branch = scene.path(node);
      branch.erase(branch.begin(), branch.begin() + Scene::kTrunk);
      const auto found =
          parts.run(scene.chain(Scene::kTrunk, static_cast<int>(branch.size())), branch);
      EXPECT_TRUE(same_bytes(std::span(found).last(width),
                             std::span(expected).subspan(static_cast<std::size_t>(node) * width, width)))
          << c.name << " node " << node;
    }
  }
}

TEST_P(Conformance, CacheRowsAreCopiedAsIfAllWereReadFirst) {
  const Scene scene;
  for (const AttentionCase& c : {kAttentionCases[0], kAttentionCases[9]}) {
    Device device = plain();
    Attention moved(device, c), expected(device, c);
    moved.run(scene, 0, Scene::kTrunk);
    expected.run(scene, 0, Scene::kTrunk - 2);
    // The last row moves two places down through its neighbours: each reads what another has written.
    const int last = Scene::kTrunk - 1;
    device->copy_kv(moved.cache(), std::vector<Slot>{scene.slot(last - 2), scene.slot(last - 1), scene.slot(last)},
                    std::vector<Slot>{scene.slot(last), scene.slot(last - 2), scene.slot(last - 1)});
    device->copy_kv(moved.cache(), std::vector<Slot>{scene.slot(last), scene.slot(last - 2)},
                    std::vector<Slot>{scene.slot(last - 2), scene.slot(last)});
    const AttentionLayout next = scene.chain(last - 1, 1);
    EXPECT_TRUE(same_bytes(moved.run(next, {Scene::kTrunk}), expected.run(next, {Scene::kTrunk})));
  }
}

TEST_P(Conformance, WrongShapesAreBugs) {
  Device device = plain();
  const TestMatrix matrix = random_matrix(StorageType::f32, 4, 32, 22);
  const auto weight = device->load_weight(matrix.stored, WeightLayout::as_stored);
  const View x = device.zeros(3, 32), narrow = device.zeros(3, 31), out = device.zeros(3, 4);
  const Projection good[] = {{weight.get(), out}};
  EXPECT_THROW(device->linear({.input = narrow, .outputs = good}), Bug);
  EXPECT_THROW(device->add(x, narrow, x), Bug);
  EXPECT_THROW(device->embed(*weight, std::vector<TokenId>{4}, device.zeros(1, 32)), Bug);
  EXPECT_THROW(device->gather_rows(x, std::vector<std::int32_t>{3}, device.zeros(1, 32)), Bug);
  std::vector<TokenId> indices(3 * 33);
  std::vector<float> values(3 * 33);
  EXPECT_THROW(device->top_k(x, 33, values, indices), Bug);
}

std::vector<BackendCase> backend_cases() {
  std::vector<BackendCase> cases = {{"reference"}};
  const std::pair<std::string, CpuKernels> sets[] = {{"portable", CpuKernels::portable},
                                                     {"avx2", CpuKernels::avx2},
                                                     {"avx512_vnni", CpuKernels::avx512_vnni},
                                                     {"amx", CpuKernels::amx}};
  for (const auto& [name, kernels] : sets) {
    for (const int bits : {8, 16}) cases.push_back({fmt::format("{}_{}", name, bits), kernels, bits});
  }
  return cases;
}
std::string case_name(const testing::TestParamInfo<BackendCase>& tested) {
  return tested.param.name;
}
INSTANTIATE_TEST_SUITE_P(Backends, Conformance, testing::ValuesIn(backend_cases()), case_name);

TEST(CheckingBackend, ReportsWhatDiffersAndOnlyThat) {
  // 8-bit activations differ from float32 by far more than the tolerance; a copy does not.
  auto checking = make_checking_backend(make_cpu_backend({.threads = 1, .activation_bits = 8}),
                                        make_reference_backend(1), 1e-6);
  CheckingBackend& watched = *checking;
  Device device(std::move(checking));
  const TestMatrix matrix = random_matrix(StorageType::q8_0, 8, 64, 23);
  const auto weight = device->load_weight(matrix.stored, WeightLayout::as_stored);
  const View x = device.random(2, 64, 24), out = device.zeros(2, 8);
  device->copy(x, device.zeros(2, 64));
  EXPECT_TRUE(watched.mismatches().empty());
  const Projection output[] = {{weight.get(), out}};
  device->linear({.input = x, .outputs = output});
  ASSERT_EQ(watched.mismatches().size(), 2U);  // one a row
  EXPECT_EQ(watched.mismatches()[0].operation, "linear");
  EXPECT_GT(watched.mismatches()[0].largest_difference, 0);
  EXPECT_GT(watched.mismatches()[0].scale, 0);
}

}  // namespace
}  // namespace talon
