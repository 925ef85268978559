#!/bin/bash
echo "There is no board in this image, which was asked to $1 it."
