#include "row_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>

#include "core/error.h"
#include "model/target.h"

namespace talon::test {
namespace {

using Rows = std::vector<std::vector<float>>;  // per position of the text

class RowBytes {
 public:
  RowBytes(TestModel& model, std::uint32_t seed, int text_length)
      : model_(model),
        cache_(*model.backend, kv_shape(model.model.config, 16)),
        target_(model.model, cache_, 256),
        random_(seed) {
    text_ = random_text(text_length);
    for (int i = 0; i < 2; ++i) other_texts_.push_back(random_text(20 + 9 * i));
  }

  std::vector<std::string> run() {
    expected_ = in_chunks(text_length());
    compare("in chunks of 7", in_chunks(7));
    compare("row by row", in_chunks(1));
    for (int nodes : {1, 5, 17, 64})
      compare(fmt::format("in trees of {} wrong nodes", nodes), in_trees(nodes, false));
    compare("in trees beside other sequences", in_trees(24, true));
    return differences_;
  }

 private:
  int text_length() const { return static_cast<int>(text_.size()); }

  std::vector<TokenId> random_text(int length) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < length; ++i) tokens.push_back(random_token());
    return tokens;
  }
  TokenId random_token() {
    return static_cast<TokenId>(random_() % static_cast<std::uint32_t>(model_.vocabulary()));
  }

  Rows in_chunks(int chunk) {
    Rows rows;
    KvSequence sequence = cache_.start(text_, false);
    for (int begin = 0; begin < text_length(); begin += chunk) {
      const auto tokens = std::span(text_).subspan(static_cast<std::size_t>(begin));
      const auto part =
          tokens.first(std::min<std::size_t>(tokens.size(), static_cast<std::size_t>(chunk)));
      expects(sequence.reserve(static_cast<int>(part.size())), "room in the cache");
      const std::vector<SequenceRows> batch = {
          {.sequence = &sequence, .tokens = part, .parents = {}}};
      const ForwardResult result = target_.forward(batch);
      std::vector<NodeId> all;
      for (int row = 0; row < static_cast<int>(part.size()); ++row) {
        rows.push_back(download(result.logits.row_range(row, 1)));
        all.push_back(row);
      }
      sequence.keep(all, part);
    }
    return rows;
  }

  /// Each forward checks a tree that holds the next few tokens of the text among `wrong_nodes`
  /// others, and keeps their path.
  Rows in_trees(int wrong_nodes, bool beside_others) {
    Rows rows;
    KvSequence sequence = cache_.start(text_, false);
    std::vector<KvSequence> others;
    for (const auto& text : other_texts_) others.push_back(cache_.start(text, false));
    while (static_cast<int>(rows.size()) < text_length()) {
      const auto tokens = std::span(text_).subspan(rows.size());
      const auto right = tokens.first(std::min<std::size_t>(tokens.size(), 1 + random_() % 6));
      std::vector<NodeId> path;
      const DraftTree tree = tree_around(right, wrong_nodes, path);
      expects(sequence.reserve(tree.size()), "room in the cache");
      const std::vector<TokenId> tree_tokens = tree.tokens();
      const std::vector<NodeId> tree_parents = tree.parents();
      std::vector<SequenceRows> batch = {
          {.sequence = &sequence, .tokens = tree_tokens, .parents = tree_parents}};
      if (beside_others) {
        for (std::size_t i = 0; i < others.size(); ++i) {
          expects(others[i].reserve(static_cast<int>(other_texts_[i].size())), "room in the cache");
          batch.insert(i == 0 ? batch.begin() : batch.end(),
                       {.sequence = &others[i], .tokens = other_texts_[i], .parents = {}});
        }
      }
      const ForwardResult result = target_.forward(batch);
      const int first = result.first_logits_row[beside_others ? 1 : 0];
      for (const NodeId node : path)
        rows.push_back(download(result.logits.row_range(first + node, 1)));
      sequence.keep(path, right);
    }
    return rows;
  }

  DraftTree tree_around(std::span<const TokenId> right, int wrong_nodes,
                        std::vector<NodeId>& path) {
    DraftTree tree(right.front());
    path = {0};
    std::size_t added = 1;
    while (added < right.size() || wrong_nodes > 0) {
      if (added < right.size() && (wrong_nodes == 0 || random_() % 4 == 0)) {
        path.push_back(tree.add(path.back(), right[added++], 0));
      } else {
        const auto parent =
            static_cast<NodeId>(random_() % static_cast<std::uint32_t>(tree.size()));
        tree.add(parent, random_token(), 0);
        --wrong_nodes;
      }
    }
    return tree;
  }

  std::vector<float> download(const View& row) {
    std::vector<float> values(static_cast<std::size_t>(row.cols));
    model_.backend->download(row, values);
    return values;
  }

  void compare(const std::string& way, const Rows& found) {
    for (std::size_t position = 0; position < expected_.size(); ++position) {
      const auto& a = expected_[position];
      const auto& b = found[position];
      if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) continue;
      differences_.push_back(fmt::format("{}: position {}", way, position));
      return;
    }
  }

  TestModel& model_;
  KvCache cache_;
  Target target_;
  std::mt19937 random_;
  std::vector<TokenId> text_;
  std::vector<std::vector<TokenId>> other_texts_;
  Rows expected_;
  std::vector<std::string> differences_;
};

}  // namespace

std::vector<std::string> differing_rows(TestModel& model, std::uint32_t seed, int text_length) {
  return RowBytes(model, seed, text_length).run();
}

}  // namespace talon::test
