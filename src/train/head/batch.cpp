#include "train/head/batch.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "core/error.h"
#include "model/target.h"

namespace talon {
namespace {

using torch::Tensor;

/// Copies conversation after conversation into the tensors of a batch.
class Packer {
 public:
  Packer(const FeatureLayout& layout, const BatchOptions& options, std::int64_t pairs,
         std::int64_t queries)
      : layout_(layout), options_(options) {
    const auto half = torch::TensorOptions().dtype(torch::kHalf);
    const int width = options.with_taps ? layout.taps * layout.hidden : layout.hidden;
    features_ = torch::empty({pairs, options.tokens_alone ? 0 : width}, half);
    wanted_ = torch::empty({queries, layout.hidden}, half);
    pair_token_.reserve(static_cast<std::size_t>(pairs));
    step_token_.resize(static_cast<std::size_t>(options.steps));
    step_wanted_ = step_weight_ = step_token_;
  }

  void add(const Conversation& conversation);
  Batch finish(torch::ScalarType wide, torch::Device device);

 private:
  void pad();
  void copy_rows(const Conversation& from, int first, int count, int column, const Tensor& to,
                 std::int64_t at) const;

  FeatureLayout layout_;
  BatchOptions options_;
  Batch batch_;
  Tensor features_, wanted_;
  std::vector<std::int64_t> pair_token_, query_pair_, position_;
  std::vector<double> temperature_;
  std::vector<std::vector<std::int64_t>> step_token_, step_wanted_, step_weight_;
};

void Packer::copy_rows(const Conversation& from, int first, int count, int column, const Tensor& to,
                       std::int64_t at) const {
  const auto width = static_cast<std::size_t>(to.size(1));
  auto* out = static_cast<std::uint16_t*>(to.data_ptr()) + at * to.size(1);
  for (int row = first; row < first + count; ++row, out += width) {
    from.copy_row(row, static_cast<std::size_t>(column), {out, width});
  }
}

void Packer::add(const Conversation& conversation) {
  const int tokens = std::min(static_cast<int>(conversation.tokens.size()), options_.most_tokens);
  const int pairs = tokens - 2;
  const int lead = options_.tokens_alone ? 1 : 0;
  const int first_query = conversation.response_begin - 1;
  const int queries = pairs - first_query;
  const SequenceRange range{static_cast<std::int64_t>(pair_token_.size()), lead + pairs,
                            static_cast<std::int64_t>(query_pair_.size()), queries};
  batch_.sequences.push_back(range);
  const auto token = [&](int i) {
    return static_cast<std::int64_t>(
        conversation.tokens[static_cast<std::size_t>(std::min(i, tokens - 1))]);
  };
  if (!options_.tokens_alone) {
    copy_rows(conversation, 0, pairs, options_.with_taps ? 0 : layout_.final_begin, features_,
              range.key_begin);
  }
  copy_rows(conversation, first_query + 1, queries, layout_.final_begin, wanted_,
            range.query_begin);
  for (int i = -lead; i < pairs; ++i) {
    pair_token_.push_back(token(i + 1));
    // The first pair that is a query has the token of cell 0, whose row of the table is 1.
    position_.push_back(options_.by_cell ? std::max(0, i - first_query + 1) : lead + i);
  }
  for (int r = 0; r < queries; ++r) {
    query_pair_.push_back(range.key_begin + lead + first_query + r);
    temperature_.push_back(conversation.temperature);
    for (std::size_t j = 0; j < step_token_.size(); ++j) {
      const int ahead = r + static_cast<int>(j);
      step_token_[j].push_back(token(first_query + 1 + ahead));
      step_wanted_[j].push_back(range.query_begin + std::min(ahead, queries - 1));
      step_weight_[j].push_back(ahead < queries ? 1 : 0);
    }
  }
  const auto response =
      conversation.tokens.subspan(static_cast<std::size_t>(conversation.response_begin),
                                  static_cast<std::size_t>(tokens - conversation.response_begin));
  batch_.response_tokens.insert(batch_.response_tokens.end(), response.begin(), response.end());
}

std::int64_t rounded_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

void Packer::pad() {
  batch_.real_queries = static_cast<std::int64_t>(query_pair_.size());
  const auto pairs = static_cast<std::size_t>(features_.size(0));
  const auto queries = static_cast<std::size_t>(wanted_.size(0));
  features_
      .narrow(0, static_cast<std::int64_t>(pair_token_.size()),
              static_cast<std::int64_t>(pairs - pair_token_.size()))
      .zero_();
  wanted_.narrow(0, batch_.real_queries, wanted_.size(0) - batch_.real_queries).zero_();
  pair_token_.resize(pairs);
  position_.resize(pairs);
  query_pair_.resize(queries);
  temperature_.resize(queries);
  for (std::size_t j = 0; j < step_token_.size(); ++j) {
    step_token_[j].resize(queries);
    step_wanted_[j].resize(queries);
    step_weight_[j].resize(queries);
  }
}

Batch Packer::finish(torch::ScalarType wide, torch::Device device) {
  pad();
  const auto whole = [&](const std::vector<std::int64_t>& values) {
    return torch::tensor(values, torch::kLong).to(device);
  };
  const auto real = [&](const Tensor& half) {
    return half.to(torch::TensorOptions().device(device).dtype(wide));
  };
  if (options_.with_taps) {
    batch_.taps = features_.to(device);
  } else {
    batch_.features = real(features_);
  }
  batch_.wanted = real(wanted_);
  batch_.pair_token = whole(pair_token_);
  batch_.query_pair = whole(query_pair_);
  batch_.position = whole(position_);
  batch_.temperature = torch::tensor(temperature_, torch::kDouble)
                           .to(torch::TensorOptions().device(device).dtype(wide));
  for (std::size_t j = 0; j < step_token_.size(); ++j) {
    batch_.step_token.push_back(whole(step_token_[j]));
    batch_.step_wanted.push_back(whole(step_wanted_[j]));
    batch_.step_weight.push_back(whole(step_weight_[j]).to(wide));
  }
  return std::move(batch_);
}

int kept_tokens(const ConversationSize& size, const BatchOptions& options) {
  return std::min(size.tokens, options.most_tokens);
}

}  // namespace

FeatureLayout feature_layout(const DatasetInfo& info) {
  FeatureLayout layout{info.hidden, 0, -1};
  for (std::size_t i = 0; i < info.taps.size(); ++i) {
    if (info.taps[i] == FeatureTap::kFinalNorm) {
      layout.final_begin = static_cast<int>(i) * info.hidden;
    } else {
      ++layout.taps;
    }
  }
  const bool last = layout.final_begin == layout.taps * info.hidden;
  if (layout.final_begin < 0 || !last) {
    fail(
        "train head: the data set's features: expected the layers' streams and after them the "
        "vector that the output matrix reads, found {} vectors without it at the end: record the "
        "data with talon train data",
        info.taps.size());
  }
  return layout;
}

bool usable(const ConversationSize& size, const BatchOptions& options) {
  return kept_tokens(size, options) - 1 - size.response_begin >= 1;
}

std::int64_t pairs_of(const ConversationSize& size, const BatchOptions& options) {
  return kept_tokens(size, options) - 2;
}

std::int64_t usable_pairs(const Dataset& data, const BatchOptions& options) {
  std::int64_t pairs = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const ConversationSize size = data.size_of(i);
    if (usable(size, options)) pairs += pairs_of(size, options);
  }
  return pairs;
}

Batch pack_batch(const Dataset& data, const std::vector<std::size_t>& conversations,
                 const BatchOptions& options, torch::ScalarType wide, torch::Device device) {
  expects(!conversations.empty(), "a batch of at least one conversation");
  std::int64_t pairs = 0, queries = 0;
  for (const std::size_t index : conversations) {
    const ConversationSize size = data.size_of(index);
    pairs += pairs_of(size, options) + (options.tokens_alone ? 1 : 0);
    queries += kept_tokens(size, options) - 1 - size.response_begin;
  }
  Packer packer(feature_layout(data.info()), options, rounded_up(pairs, options.multiple),
                rounded_up(queries, options.multiple));
  for (const std::size_t index : conversations) packer.add(data.read(index));
  return packer.finish(wide, device);
}

void add_noise(Batch& batch, double bound, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const Tensor noise = torch::empty(batch.features.sizes(), torch::kFloat);
  batch.features.add_(noise.uniform_(-bound, bound, generator).to(batch.features.device()));
}

}  // namespace talon
