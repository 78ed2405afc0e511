#include "backend/cpu/cpu_linear.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_linear_call.h"
#include "core/error.h"

namespace talon::cpu {
namespace {

/// With mixed activations, groups whose largest value is above this times the mean of their segment
/// get 16 bits: docs/performance/precision.md has the likelihoods.
constexpr float kFineAbove = 3.0F;
constexpr std::size_t kReadAhead =
    1024;  // kernels may read (and not use) so much past the last record
/// Ahead of the weights in use, into the second-level cache: enough to keep memory busy while a
/// group is multiplied. Measured: 8 KiB is slower by a few percent, 2 KiB and the first-level cache
/// by a third.
constexpr int kPrefetchBytes = 16384;
int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

/// Inputs of a segment: a row is cut into the fewest nearly equal ones. Mixed activations compare a
/// group with its segment, so the cut is the same whoever quantises the row.
int segment_of(int cols) {
  const int segments = (cols + kLongestSegment - 1) / kLongestSegment;
  return round_up((cols + segments - 1) / segments, 64);
}

bool is_norm(InputTransform transform) {
  return transform == InputTransform::rms_norm || transform == InputTransform::layer_norm;
}

/// Whether a projection writes where the input lies.
bool writes_input(const LinearArgs& args) {
  const auto end_of = [](const View& view) { return view.row(view.rows - 1) + view.cols; };
  for (const Projection& projection : args.outputs) {
    if (projection.out.data < end_of(args.input) && args.input.data < end_of(projection.out)) {
      return true;
    }
  }
  return false;
}

/// Whether workers share out the inputs of rows, which leaves no line of records to two of them.
bool is_cut_by_columns(const LinearArgs& args, int threads) {
  const int cols = args.outputs[0].weight->cols;
  const int segments = (cols + segment_of(cols) - 1) / segment_of(cols);
  return !is_norm(args.transform) && segments > 1 && segments >= threads;
}

/// Few enough inputs for each worker to prepare them all; `cost` as of plain ones.
constexpr bool are_few(int rows, int cols, int cost) {
  return std::int64_t{rows} * cols * cost <= 5120;
}
static_assert(!are_few(11'000, 65'536, 3), "beyond what an int holds");

/// Whether every worker prepares all rows for itself, which costs less than waiting for each other
/// or than writing to the same lines: few rows, or fewer than a line of scales for each worker.
bool is_prepared_by_all(const LinearArgs& args, int threads) {
  const int rows = args.input.rows;
  const bool few = are_few(rows, args.outputs[0].weight->cols, is_gate(args.transform) ? 3 : 1);
  const bool narrow = rows < kLanes * threads && !is_cut_by_columns(args, threads);
  return (few || narrow) && !writes_input(args);
}

}  // namespace

void check_linear(const LinearArgs& args) {
  expects(!args.outputs.empty(), "linear() has a projection");
  const int cols = args.outputs[0].weight->cols;
  expects(args.input.cols == (is_gate(args.transform) ? 2 * cols : cols),
          "linear(): the input is as wide as the weights");
  expects(!is_norm(args.transform) || args.norm.cols == cols,
          "linear(): the norm is as wide as the input");
  expects(!args.norm_bias || args.norm_bias.cols == cols,
          "linear(): the norm's bias is as wide as the input");
  for (const Projection& projection : args.outputs) {
    expects(projection.weight->cols == cols, "linear(): all projections read the same input");
    expects(
        projection.out.rows == args.input.rows && projection.out.cols == projection.weight->rows,
        "linear(): the output is [rows, weight rows]");
    expects(!projection.bias || projection.bias.cols == projection.weight->rows,
            "linear(): a bias per output");
  }
}

double work_of(const LinearArgs& args) {
  double bytes = 0;
  for (const Projection& projection : args.outputs) {
    bytes += static_cast<double>(projection.weight->bytes);
  }
  return args.input.rows * bytes;
}

struct Linear::Run {
  const Projection* projection = nullptr;
  int first_tile = 0;
  int tiles = 0;
};

Linear::Linear(const Kernels& kernels, ThreadPool& pool, Activations activations)
    : kernels_(kernels),
      pool_(pool),
      two_planes_(activations != Activations::bits8),
      rounds_(activations != Activations::bits16),
      fine_above_(activations == Activations::mixed ? kFineAbove : 0.0F),
      workers_(static_cast<std::size_t>(pool.threads())) {}

Linear::~Linear() = default;

bool Linear::is_rounded(const PackedWeight& weight) const {
  return rounds_ && weight.kind == TileKind::bf16;
}

Linear::Forms Linear::forms_of(const LinearArgs& args) const {
  Forms forms;
  for (const Projection& projection : args.outputs) {
    const PackedWeight& weight = packed(projection);
    forms.floats |= weight.is_float() && !is_rounded(weight);
    forms.rounded |= is_rounded(weight);
    forms.quantized |= !weight.is_float();
    forms.half_sums |= weight.shape().group == 16;
  }
  return forms;
}

void Linear::cut(int rows, bool float_weights, Blocks& blocks) const {
  blocks.list.clear();
  blocks.of_row.clear();
  for (int first = 0; first < rows;) {
    const int count = kernels_.block_rows(rows - first, float_weights);
    blocks.of_row.insert(blocks.of_row.end(), static_cast<std::size_t>(count),
                         static_cast<int>(blocks.list.size()));
    blocks.list.push_back({first, count});
    first += count;
  }
}

Linear::Input Linear::place_input(const LinearArgs& args, const Forms& forms, const Blocks& blocks,
                                  const Blocks& float_blocks, Scratch& memory) const {
  Input input;
  input.blocks = &blocks;
  input.float_blocks = &float_blocks;
  input.rows = args.input.rows;
  input.cols = args.outputs[0].weight->cols;
  input.groups = round_up(input.cols, 64) / kInputGroup;
  input.float_units = round_up(input.cols, kLanes) / kLanes;
  const auto rows = static_cast<std::size_t>(input.rows);
  const auto groups = static_cast<std::size_t>(input.groups);
  const std::size_t records = rows * groups * kRecordBytes;
  const std::size_t half_sums = rows * groups * kHalfSumBytes;
  const std::size_t floats = rows * static_cast<std::size_t>(input.float_units) * kLanes;
  const std::size_t rounded = floats * static_cast<std::size_t>(kernels_.rounded_bytes);
  const bool two_planes = forms.quantized && two_planes_ && !args.rough;
  const std::size_t second = two_planes ? rows * groups * kSecondBytes : 0;
  std::byte* at =
      memory.reserve<std::byte>((forms.quantized ? records + second + 64 + kReadAhead : 0) +
                                (forms.half_sums ? half_sums + 64 : 0) +
                                (forms.floats ? 4 * floats : 0) + (forms.rounded ? rounded : 0));
  const auto take = [&](std::size_t bytes) {
    std::byte* piece = at;
    at += (bytes + 63) / 64 * 64;
    return piece;
  };
  if (two_planes) input.second = take(second);
  if (forms.quantized) input.records = take(records + kReadAhead - 64);
  if (forms.half_sums) input.half_sums = take(half_sums);
  if (forms.floats) input.floats = take(4 * floats);
  if (forms.rounded) input.rounded = take(rounded);
  return input;
}

/// Where `groups` groups of rows later begin; the parts that are not wanted stay null.
Linear::Input Linear::after(const Input& input, std::size_t groups) const {
  const auto advance = [groups](std::byte*& part, int bytes) {
    if (part != nullptr) part += groups * static_cast<std::size_t>(bytes);
  };
  Input later = input;
  advance(later.records, kRecordBytes);
  advance(later.second, kSecondBytes);
  advance(later.half_sums, kHalfSumBytes);
  return later;
}

/// Stores inputs [first, first + count), a segment or all, of a transformed row in the forms
/// wanted.
void Linear::prepare(const LinearArgs& args, const Input& input, int row, int first, int count,
                     Worker& worker) const {
  const float* x = args.input.row(row) + first;
  if (args.transform == InputTransform::silu_gate) {
    float* gated = worker.row.reserve<float>(static_cast<std::size_t>(count));
    kernels_.silu_gate(x, x + input.cols, count, gated);
    x = gated;
  } else if (args.transform == InputTransform::rms_norm) {
    float* normed = worker.row.reserve<float>(static_cast<std::size_t>(count));
    kernels_.rms_norm(x, args.norm.data, args.norm_epsilon, count, normed);
    x = normed;
  } else if (args.transform == InputTransform::layer_norm) {
    float* normed = worker.row.reserve<float>(static_cast<std::size_t>(count));
    kernels_.layer_norm(x, args.norm.data, args.norm_bias.data, args.norm_epsilon, count, normed);
    x = normed;
  } else if (args.transform != InputTransform::none) {
    float* changed = worker.row.reserve<float>(static_cast<std::size_t>(count));
    const float* second = is_gate(args.transform) ? x + input.cols : nullptr;
    kernels_.transform(args.transform, args.xielu, x, second, count, changed);
    x = changed;
  }
  const bool last = first + count == input.cols;
  const auto block_of = [row](const Blocks& blocks) {
    return blocks.list[static_cast<std::size_t>(blocks.of_row[static_cast<std::size_t>(row)])];
  };
  if (input.records != nullptr) {
    const RowBlock block = block_of(*input.blocks);
    const int segment = segment_of(input.cols);
    for (int at = 0; at < count; at += segment) {
      const int group = (first + at) / kInputGroup;
      const int cols = std::min(segment, count - at);
      const int groups = last && at + cols == count ? input.groups - group : cols / kInputGroup;
      const auto before = static_cast<std::size_t>(block.first * input.groups + block.rows * group);
      const Input place = after(input, before);
      const QuantizedRow out{place.records, place.second, place.half_sums,
                             fine_above_,   block.rows,   row - block.first};
      kernels_.quantize(x + at, cols, groups, out);
    }
  }
  const int unit = first / kLanes;
  const int units = (last ? input.float_units : (first + count) / kLanes) - unit;
  // Stores 16 inputs at a time, zeros behind the last ones, with store(x, out).
  const auto store_units = [&](std::byte* form, int value_bytes, const auto& store) {
    const RowBlock block = block_of(*input.float_blocks);
    const std::ptrdiff_t step = static_cast<std::ptrdiff_t>(kLanes) * value_bytes;
    std::byte* out =
        form + step * (block.first * input.float_units + block.rows * unit + row - block.first);
    for (int at = 0; at < units * kLanes; at += kLanes, out += step * block.rows) {
      if (at + kLanes <= count) {
        store(x + at, out);
        continue;
      }
      float some[kLanes] = {};
      std::copy_n(x + at, count - at, some);
      store(some, out);
    }
  };
  if (input.floats != nullptr) {
    store_units(input.floats, 4,
                [](const float* some, std::byte* out) { std::memcpy(out, some, 4 * kLanes); });
  }
  if (input.rounded != nullptr) {
    store_units(input.rounded, kernels_.rounded_bytes,
                [&](const float* some, std::byte* out) { kernels_.round(some, kLanes, out); });
  }
}

/// Each worker prepares one run of the items, which are rows, or segments of them in the order of
/// columns.
void Linear::prepare_shared(const LinearArgs& args, const Input& input, int index) {
  const int threads = pool_.active();
  Worker& worker = workers_[static_cast<std::size_t>(index)];
  const int chunk = is_cut_by_columns(args, threads) ? segment_of(input.cols) : input.cols;
  const int items = (input.cols + chunk - 1) / chunk * input.rows;
  for (int item = items * index / threads; item < items * (index + 1) / threads; ++item) {
    const int first = item / input.rows * chunk;
    prepare(args, input, item % input.rows, first, std::min(chunk, input.cols - first), worker);
  }
}

void Linear::multiply_tiles(const Run& run, const Input& input) const {
  const Projection& projection = *run.projection;
  const PackedWeight& weight = packed(projection);
  const int first_output = run.first_tile * kLanes;
  const bool rounded = is_rounded(weight);
  MultiplyCall call{};
  call.kind = weight.kind;
  call.tiles = weight.tile(run.first_tile);
  call.tile_bytes = weight.tile_bytes;
  call.tile_count = run.tiles;
  call.units = weight.units;
  call.table = weight.table.data();
  call.pre_scale = weight.pre_scale;
  call.out_stride = projection.out.stride;
  call.outputs = std::min(run.tiles * kLanes, weight.rows - first_output);
  call.bias = projection.bias ? projection.bias.data + first_output : nullptr;
  call.accumulate = projection.accumulate;
  for (const RowBlock& block : input.blocks_of(weight)) {
    call.rows = block.rows;
    const auto before = static_cast<std::size_t>(block.first * input.groups);
    const std::ptrdiff_t floats_before =
        static_cast<std::ptrdiff_t>(block.first * input.float_units) * kLanes;
    if (rounded) {
      call.input = input.rounded + floats_before * kernels_.rounded_bytes;
    } else if (weight.is_float()) {
      call.input = input.floats + floats_before * 4;
    } else {
      const Input place = after(input, before);
      call.input = place.records;
      call.second = place.second;
      call.sums16 = place.half_sums;
    }
    call.out = projection.out.row(block.first) + first_output;
    call.prefetch = block.first == 0 ? kPrefetchBytes : 0;
    (rounded ? kernels_.multiply_rounded : kernels_.multiply)(call);
  }
}

void Linear::multiply_pieces(const Pieces& pieces, int first, int count) const {
  for (const Projection& projection : pieces.args.outputs) {
    const PackedWeight& weight = packed(projection);
    const int here = pieces.count_of(projection);
    const int per_piece = pieces.tiles_of(weight);
    const int end = std::min((first + count) * per_piece, weight.tiles);
    const int step = pieces.streams(weight) ? std::max(count, 1) * per_piece : per_piece;
    for (int tile = std::max(first, 0) * per_piece; tile < end; tile += step) {
      multiply_tiles({&projection, tile, std::min(step, end - tile)}, pieces.input);
    }
    first -= here;
  }
}

/// Each worker reads one contiguous run of memory, as far as all keep their processors: what it
/// fetches ahead is for itself.
void Linear::multiply(const LinearArgs& args, const Input& input, int worker) {
  const Pieces pieces{args, input, kernels_.wide_rows};
  pool_.share(worker, static_cast<std::size_t>(pieces.count()),
              [&](std::size_t first, std::size_t count) {
                multiply_pieces(pieces, static_cast<int>(first), static_cast<int>(count));
              });
}

void Linear::run(const LinearArgs& args) {
  check_linear(args);
  if (args.input.rows == 0) return;
  const Forms forms = forms_of(args);
  cut(args.input.rows, false, blocks_);
  cut(args.input.rows, true, float_blocks_);
  if (is_prepared_by_all(args, pool_.active())) {
    pool_.run_timed(work_of(args), [&](int index) {
      Worker& worker = workers_[static_cast<std::size_t>(index)];
      const Input input = place_input(args, forms, blocks_, float_blocks_, worker.input);
      for (int row = 0; row < input.rows; ++row) prepare(args, input, row, 0, input.cols, worker);
      multiply(args, input, index);
    });
    return;
  }
  const Input input = place_input(args, forms, blocks_, float_blocks_, shared_);
  // Between a region's barriers nothing may throw.
  for (Worker& worker : workers_) worker.row.reserve<float>(static_cast<std::size_t>(input.cols));
  pool_.run_timed(work_of(args), [&](int index) {
    prepare_shared(args, input, index);
    pool_.barrier();
    multiply(args, input, index);
  });
}

}  // namespace talon::cpu
