#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "backend/conformance.h"

namespace talon::conformance::conformance_attention_test {
namespace {

class AttentionConformance : public Conformance {};

struct AttentionCase {
  std::string name;
  int heads = 4, kv_heads = 4, head_dim = 64;
  int window = 0;
  bool head_norms = false;
  KvType cache = KvType::f32;
  int value_dim = 0;  // 0: head_dim
  int rotary = -1;    // columns that turn; -1: all
  int chunk = 0;
  float soft_cap = 0;
  bool sinks = false, query_scale = false, value_norm = false;
  bool row_norms = false, norm_after_rope = false;

  int values() const { return value_dim > 0 ? value_dim : head_dim; }
};

AttentionCase with(std::string name, void (*change)(AttentionCase&)) {
  AttentionCase c{std::move(name), 8, 2, 32};
  change(c);
  return c;
}

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
    {"bf16", 9, 3, 64, 0, false, KvType::bf16},
    {"bf16 with all", 8, 2, 32, 33, true, KvType::bf16},
    {"bf16 small heads", 8, 4, 8, 0, false, KvType::bf16},
    with("wide values", [](AttentionCase& c) { c.value_dim = 40; }),
    with("narrow values", [](AttentionCase& c) { c.value_dim = 20; }),
    with("a part that turns", [](AttentionCase& c) { c.rotary = 12; }),
    with("nothing turns", [](AttentionCase& c) { c.rotary = 0; }),
    with("chunks", [](AttentionCase& c) { c.chunk = 48; }),
    with("soft cap", [](AttentionCase& c) { c.soft_cap = 1.5F; }),
    with("sinks", [](AttentionCase& c) { c.sinks = true; }),
    with("query scales", [](AttentionCase& c) { c.query_scale = true; }),
    with("value norm", [](AttentionCase& c) { c.value_norm = true; }),
    with("norms over rows", [](AttentionCase& c) { c.head_norms = c.row_norms = true; }),
    with("norms behind the rotation",
         [](AttentionCase& c) { c.head_norms = c.norm_after_rope = true; }),
    with("all of it",
         [](AttentionCase& c) {
           c.cache = KvType::f16;
           c.value_dim = 24;
           c.rotary = 16;
           c.window = 70;
           c.chunk = 100;
           c.soft_cap = 3;
           c.head_norms = c.sinks = c.query_scale = c.value_norm = c.norm_after_rope = true;
         }),
};

/// Random rows on a random tree: a trunk of committed text, then branches.
struct Scene {
  static constexpr int kPages = 8;
  static constexpr int kRows = 330;  // rows 0 .. kTrunk - 1 are the trunk
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

  /// Rows [first, first + count): trunk rows in line, branch rows with the list of their ancestors
  /// past the trunk.
  AttentionLayout layout(int first, int count) const {
    AttentionLayout layout;
    layout.pages.push_back(pages);
    for (int node = first; node < first + count; ++node) {
      const std::vector<int> nodes = path(node);
      AttentionRow row;
      row.position = static_cast<int>(nodes.size()) - 1;
      row.visible = row.position + 1;
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
  /// Rows [first, first + count) as one block behind the trunk: each sees the trunk and the whole
  /// block, whatever its own place, and turns by a position of its own.
  AttentionLayout block(int first, int count) const {
    AttentionLayout layout;
    layout.pages.push_back(pages);
    for (int i = 0; i < count; ++i) layout.extra.push_back(slot(first + i));
    for (int i = 0; i < count; ++i) {
      layout.rows.push_back({.position = kTrunk - i,
                             .visible = kTrunk + count,
                             .slot = slot(first + i),
                             .contiguous = kTrunk});
    }
    return layout;
  }
  /// One branch as plain decoding would lay it out.
  AttentionLayout chain(int first, int count) const {
    AttentionLayout layout;
    layout.pages.push_back(pages);
    for (int position = first; position < first + count; ++position) {
      layout.rows.push_back({.position = position,
                             .visible = position + 1,
                             .slot = slot(position),
                             .contiguous = position + 1});
    }
    return layout;
  }
};

/// Feeds rows of one scene to attention().
class Attention {
 public:
  Attention(Device& device, const AttentionCase& c) : device_(device), case_(c) {
    const KvWidth other{3, 16, 8};
    KvShape shape{2, c.kv_heads, c.head_dim, Scene::kPages, c.cache};
    if (c.value_dim > 0) shape.widths = {other, {c.kv_heads, c.head_dim, c.value_dim}};
    cache_ = device->allocate_kv(shape);
    const int rotary = c.rotary < 0 ? c.head_dim : c.rotary;
    if (rotary > 0) rope_ = device.put(rotations(rotary), Scene::kRows, rotary);
    const int q_norm = c.head_dim * (c.row_norms ? c.heads : 1);
    const int k_norm = c.head_dim * (c.row_norms ? c.kv_heads : 1);
    q_norm_ = device.put(near_one(q_norm, 17), 1, q_norm);
    k_norm_ = device.put(near_one(k_norm, 18), 1, k_norm);
    if (c.value_norm) v_norm_ = device.put(near_one(c.values(), 22), 1, c.values());
    if (c.sinks) sinks_ = device.put(random_rows(1, c.heads, 23), 1, c.heads);
    if (c.query_scale) query_scale_ = device.put(near_one(Scene::kRows, 24), Scene::kRows, 1);
    q_ = random_rows(Scene::kRows, c.heads * c.head_dim, 19);
    for (float& value : q_) value *= 0.25F;  // scores of about one
    k_ = random_rows(Scene::kRows, c.kv_heads * c.head_dim, 20);
    v_ = random_rows(Scene::kRows, c.kv_heads * c.values(), 21);
  }
  KvStore& cache() { return *cache_; }

  /// Runs the rows of the scene named by `nodes`, placed by `layout`; [nodes, heads * head_dim].
  std::vector<float> run(const AttentionLayout& layout, const std::vector<int>& nodes) {
    return run(layout, nodes, pick(k_, case_.kv_heads * case_.head_dim, nodes),
               pick(v_, case_.kv_heads * case_.values(), nodes));
  }
  /// The same without writing keys and values.
  std::vector<float> read(const AttentionLayout& layout, const std::vector<int>& nodes) {
    return run(layout, nodes, {}, {});
  }
  std::vector<float> run(const AttentionLayout& layout, const std::vector<int>& nodes,
                         const View& k, const View& v) {
    const int rows = static_cast<int>(nodes.size());
    const View out = device_.zeros(rows, case_.heads * case_.values());
    const View none;
    const auto prepared = device_->prepare(layout);
    device_->attention({.q = pick(q_, case_.heads * case_.head_dim, nodes),
                        .k = k,
                        .v = v,
                        .out = out,
                        .cache = cache_.get(),
                        .layer = 1,
                        .layout = prepared.get(),
                        .rope = rope_,
                        .q_norm = case_.head_norms ? q_norm_ : none,
                        .k_norm = case_.head_norms ? k_norm_ : none,
                        .v_norm = v_norm_,
                        .norm_after_rope = case_.norm_after_rope,
                        .norm_epsilon = 1e-6F,
                        .scale = 1.0F / std::sqrt(static_cast<float>(case_.head_dim)),
                        .query_scale = query_scale_,
                        .sinks = sinks_,
                        .soft_cap = case_.soft_cap,
                        .window = case_.window,
                        .chunk = case_.chunk});
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
  View pick(const std::vector<float>& from, std::ptrdiff_t width, const std::vector<int>& nodes) {
    std::vector<float> rows;
    for (const int node : nodes) {
      rows.insert(rows.end(), from.begin() + node * width, from.begin() + (node + 1) * width);
    }
    return device_.put(rows, static_cast<int>(nodes.size()), static_cast<int>(width));
  }

  Device& device_;
  const AttentionCase& case_;
  std::unique_ptr<KvStore> cache_;
  View rope_, q_norm_, k_norm_, v_norm_, sinks_, query_scale_;
  std::vector<float> q_, k_, v_;
};

TEST_P(AttentionConformance, AttentionOfPromptsAndTrees) {
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

TEST_P(AttentionConformance, ARowOfAttentionHasTheSameBytesAloneInAChunkAndInATree) {
  const Scene scene;
  for (const AttentionCase& c : kAttentionCases) {
    Device one = plain(1), two = plain(2);
    Attention whole(one, c), parts(two, c);
    const auto width = static_cast<std::size_t>(c.heads * c.values());
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
      EXPECT_TRUE(
          same_bytes(std::span(found).last(width),
                     std::span(expected).subspan(static_cast<std::size_t>(node) * width, width)))
          << c.name << " node " << node;
    }
  }
}

TEST_P(AttentionConformance, RowsOfABlockSeeEachOtherBothWays) {
  const Scene scene;
  constexpr int kBlock = 7;
  const AttentionLayout layout = scene.block(Scene::kTrunk, kBlock);
  std::vector<int> nodes(kBlock);
  std::iota(nodes.begin(), nodes.end(), Scene::kTrunk);
  for (const AttentionCase& c : kAttentionCases) {
    check(Tolerance::attention(c.cache), c.name, [&](Device& device) {
      Attention attention(device, c);
      attention.run(scene, Scene::kTrunk - 60, 60);
      attention.run(layout, nodes);
    });
  }
  // The first row sees the last: with another last row it comes out otherwise.
  Device device = plain();
  Attention attention(device, kAttentionCases[0]);
  const std::vector<float> before = attention.run(layout, nodes);
  EXPECT_TRUE(same_bytes(attention.run(layout, nodes), before));
  nodes.back() += 5;
  const std::vector<float> after = attention.run(layout, nodes);
  const std::size_t width = before.size() / kBlock;
  EXPECT_FALSE(same_bytes(std::span(after).first(width), std::span(before).first(width)));
}

TEST_P(AttentionConformance, ALayerMayReadWhatAnEarlierCallWrote) {
  const Scene scene;
  const AttentionCase& c = kAttentionCases[1];
  Device device = plain();
  Attention attention(device, c);
  attention.run(scene, 0, 40);
  const AttentionLayout layout = scene.layout(40, 3);
  const std::vector<float> expected = attention.run(layout, {40, 41, 42});
  EXPECT_TRUE(same_bytes(attention.read(layout, {40, 41, 42}), expected));
}

TEST_P(AttentionConformance, CacheRowsAreCopiedAsIfAllWereReadFirst) {
  const Scene scene;
  for (const AttentionCase& c : {kAttentionCases[0], kAttentionCases[9]}) {
    Device device = plain();
    Attention moved(device, c), expected(device, c);
    moved.run(scene, 0, Scene::kTrunk);
    expected.run(scene, 0, Scene::kTrunk - 2);
    // The last row moves two places down through its neighbours: each reads what another has
    // written.
    const int last = Scene::kTrunk - 1;
    device->copy_kv(moved.cache(),
                    device.put({scene.slot(last - 2), scene.slot(last - 1), scene.slot(last)}),
                    device.put({scene.slot(last), scene.slot(last - 2), scene.slot(last - 1)}));
    device->copy_kv(moved.cache(), device.put({scene.slot(last), scene.slot(last - 2)}),
                    device.put({scene.slot(last - 2), scene.slot(last)}));
    const AttentionLayout next = scene.chain(last - 1, 1);
    EXPECT_TRUE(same_bytes(moved.run(next, {Scene::kTrunk}), expected.run(next, {Scene::kTrunk})));
  }
}

/// Attention reads no weights: what these round inputs to is nothing to it.
std::vector<BackendCase> attention_cases() {
  std::vector<BackendCase> cases = backend_cases();
  std::erase_if(cases, [](const BackendCase& c) {
    return c.activations && c.activations != Activations::bits8;
  });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Backends, AttentionConformance, testing::ValuesIn(attention_cases()),
                         case_name);

}  // namespace
}  // namespace talon::conformance::conformance_attention_test
