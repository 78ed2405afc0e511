#include "backend/attention_shapes.h"

#include "core/error.h"

namespace talon {

void check_attention(const AttentionArgs& args) {
  expects(args.cache != nullptr && args.layout != nullptr, "attention() has a cache and a layout");
  const KvShape& shape = args.cache->shape;
  expects(args.layer >= 0 && args.layer < shape.layers, "attention(): a layer of the cache");
  const KvWidth width = shape.width(args.layer);
  expects(args.layout->rows == args.q.rows, "attention(): a layout row for every row");
  expects(bool{args.k} == bool{args.v}, "attention(): keys and values, or neither");
  expects(!args.k || (args.k.rows == args.q.rows && args.v.rows == args.q.rows &&
                      args.k.cols == width.key_cols() && args.v.cols == width.value_cols()),
          "attention(): keys and values as wide as the cache");
  const int heads = args.q.cols / width.key_dim;
  expects(args.q.cols % width.key_cols() == 0 && args.out.rows == args.q.rows &&
              args.out.cols == heads * width.value_dim,
          "attention(): query heads are a multiple of the cache's");
  expects(!args.rope || (args.layout->positions <= args.rope.rows && args.rope.cols % 2 == 0 &&
                         args.rope.cols <= width.key_dim),
          "attention(): positions of the rope table, no wider than a head");
  const auto fits = [&](const View& norm, int cols) {
    return !norm || norm.cols == width.key_dim || norm.cols == cols;
  };
  expects(fits(args.q_norm, args.q.cols) && fits(args.k_norm, width.key_cols()) &&
              (!args.v_norm || args.v_norm.cols == width.value_dim),
          "attention(): norms as wide as a head or a row");
  expects(!args.query_scale || args.layout->positions <= args.query_scale.rows,
          "attention(): a query scale of every position");
  expects(!args.sinks || args.sinks.cols == heads, "attention(): a sink of every head");
}

}  // namespace talon
