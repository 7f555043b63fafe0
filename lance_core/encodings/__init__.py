"""Page encodings of format 2.1 and later: conversion of arrays to pages and back."""
